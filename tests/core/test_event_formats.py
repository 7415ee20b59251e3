"""Events in the words of four kinds of readers."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from surehand.core.event_formats import format_event
from surehand.core.events import (
    CallEnded,
    CallEvent,
    CallPending,
    CallProgress,
    CallQueued,
    CallResumed,
    CallSettled,
    CallStarted,
    CatalogueChanged,
    Event,
    Missed,
)
from surehand.core.outcome import CallMeta, Done, Failed, Outcome, Pending, attach_origin

FAMILIES = ["spaces", "agent", "bus", "session"]


class Measurements:
    """A call that took 234 ms."""

    def __init__(self, kind: str = "mcp") -> None:
        self.kind = kind

    def measure(self, outcome: Outcome) -> CallMeta:
        return CallMeta(
            kind=self.kind,
            namespace="github",
            started_at=1.0,
            latency_ms=233.7,
            characters_in=12,
            characters_out=len(outcome.text),
        )


def ended(outcome: Outcome, kind: str = "mcp") -> CallEnded:
    attach_origin(outcome, Measurements(kind))
    return CallEnded("c1", "github__search", outcome, at=1.234)


STARTED = CallStarted("c1", "github__search", {"query": "foo"}, at=1.0)


def wired(event: Event, family: str) -> dict[str, Any]:
    told = format_event(event, family)
    assert told is not None
    return told


def test_spaces_are_told_that_a_call_starts_with_its_input() -> None:
    assert format_event(STARTED, "spaces") == {
        "type": "tool-call.start",
        "streamId": "c1",
        "toolCallId": "c1",
        "toolName": "github__search",
        "timestamp": 1000,
        "input": {"query": "foo"},
    }


def test_spaces_are_told_how_a_call_wants_to_be_displayed() -> None:
    event = CallStarted("c1", "confirm", display={"customUI": "confirmAction"})

    assert wired(event, "spaces")["display"] == {"customUI": "confirmAction"}


def test_spaces_see_input_being_written_and_results_on_their_way() -> None:
    delta = wired(CallProgress("c1", "t", data={"input_delta": '{"a'}), "spaces")
    step = wired(CallProgress("c1", "t", message="half way", fraction=0.5, data={"rows": 3}), "spaces")

    assert (delta["type"], delta["delta"]) == ("tool-input-delta", '{"a')
    assert (step["type"], step["preliminary"]) == ("tool-result", True)
    assert step["output"] == {"text": "half way", "fraction": 0.5, "rows": 3}


def test_spaces_are_told_how_a_call_ended() -> None:
    complete = wired(ended(Done({"hits": 2})), "spaces")
    error = wired(ended(Failed("timed_out", "timed out after 30 s")), "spaces")

    assert (complete["type"], complete["output"]) == ("tool-call.complete", {"hits": 2})
    assert (error["type"], error["error"], error["code"]) == ("tool-call.error", "timed out after 30 s", "timed_out")


def test_agents_are_told_who_starts() -> None:
    told = wired(STARTED, "agent")

    assert (told["type"], told["tool"], told["namespace"]) == ("tool_started", "github__search", "github")


def test_agents_are_told_the_measurements_of_a_finished_call() -> None:
    told = wired(ended(Done("four")), "agent")

    assert told["type"] == "tool_finished"
    assert {name: told[name] for name in ("status", "latencyMs", "charactersIn", "charactersOut", "namespace")} == {
        "status": "ok",
        "latencyMs": 234,
        "charactersIn": 12,
        "charactersOut": 4,
        "namespace": "github",
    }
    assert "error" not in told


def test_agents_are_told_why_a_call_failed() -> None:
    told = wired(ended(Failed("timed_out", "timeout")), "agent")

    assert (told["status"], told["error"]) == ("failed", "(tool failed: timeout)")


def test_the_bus_has_numbers_for_its_three_events() -> None:
    events: list[Event] = [STARTED, ended(Done([1])), ended(Failed("failed", "no"))]

    assert [(told["type"], told["code"], told["payload"]) for told in (wired(event, "bus") for event in events)] == [
        ("TOOL_CALL_REQUESTED", 400, {"toolName": "github__search", "params": {"query": "foo"}}),
        ("TOOL_CALL_COMPLETED", 410, {"toolName": "github__search", "result": [1], "durationMs": 234}),
        ("TOOL_CALL_FAILED", 420, {"toolName": "github__search", "error": "no"}),
    ]


def test_the_bus_names_the_task_where_it_is_known() -> None:
    told = format_event(STARTED, "bus", task="t7")

    assert told is not None
    assert (told["taskId"], told["timestamp"]) == ("t7", 1000)
    assert "taskId" not in wired(STARTED, "bus")


def test_a_session_is_told_of_the_call_and_its_result() -> None:
    assert wired(STARTED, "session") == {
        "type": "tool_call",
        "callId": "c1",
        "name": "github__search",
        "input": {"query": "foo"},
        "startedAt": 1000,
        "completedAt": 1000,
    }
    assert wired(ended(Done("yes"), "client"), "session") == {
        "type": "tool_result",
        "callId": "c1",
        "name": "github__search",
        "result": "yes",
        "isError": False,
        "executedBy": "client",
        "startedAt": 1000,
        "completedAt": 1234,
    }


def test_a_session_is_told_of_failures_as_results() -> None:
    told = wired(ended(Failed("failed", "no"), "function"), "session")

    assert (told["isError"], told["result"], told["executedBy"]) == (True, "(tool failed: no)", "engine")


@pytest.mark.parametrize(("yes", "no"), [("approve", "reject"), ("approved", "rejected")])
def test_a_session_is_asked_for_confirmation_and_told_of_it(yes: str, no: str) -> None:
    asked = CallPending("c1", "pay", "approval", "Pay 5?", {"preview": 5}, {"amount": 5})
    answer = CallSettled("c1", "pay", yes, "approval", always=True)
    refusal = CallSettled("c1", "pay", no, "approval", reason="too much")

    assert wired(asked, "session") == {
        "type": "tool_confirmation_required",
        "callId": "c1",
        "name": "pay",
        "input": {"amount": 5},
        "message": "Pay 5?",
        "metadata": {"preview": 5},
    }
    assert wired(answer, "session") == {
        "type": "tool_confirmation_result",
        "callId": "c1",
        "confirmed": True,
        "always": True,
    }
    assert wired(refusal, "session")["confirmed"] is False
    assert wired(refusal, "session")["reason"] == "too much"


def test_a_session_sees_input_being_written_and_a_call_going_on() -> None:
    assert wired(CallProgress("c1", "t", data={"input_delta": "x"}), "session")["type"] == "tool_call_delta"
    assert wired(CallResumed("c1", "t"), "session") == {"type": "tool_result_start", "callId": "c1", "name": "t"}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_call_that_still_waits_has_not_ended_for_anybody(family: str) -> None:
    assert format_event(CallEnded("c1", "t", Pending("result", "c1")), family) is None


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("event", [CallQueued("c1", "t", "bank", 2), CatalogueChanged(("a",)), Missed(3)])
def test_what_a_family_has_no_word_for_is_not_told(event: Event, family: str) -> None:
    assert format_event(event, family) is None


@pytest.mark.parametrize(
    "event",
    [CallPending("c1", "t", "result"), CallSettled("c1", "t", "settled", "result"), CallProgress("c1", "t", "hm")],
)
def test_a_session_knows_only_confirmations_among_the_waits(event: CallEvent) -> None:
    assert format_event(event, "session") is None


@pytest.mark.parametrize(
    ("number", "family"), [("000", "spaces"), ("001", "agent"), ("002", "bus"), ("003", "session")]
)
def test_each_family_has_a_number_too(number: str, family: str) -> None:
    assert format_event(STARTED, number) == format_event(STARTED, family)


def test_an_unknown_family_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"Did you mean 'session'.*spaces, agent, bus"):
        format_event(STARTED, "sesion")


@pytest.mark.parametrize("family", FAMILIES)
def test_everything_told_can_be_written_as_json(family: str) -> None:
    values = {"when": datetime(2026, 1, 1, tzinfo=UTC), "raw": b"\xff", "odd": object(), "nan": float("nan")}

    for event in (CallStarted("c1", "t", values), CallEnded("c1", "t", Done(values)), CallStarted("c1", "t", "\ud800")):
        told = format_event(event, family)
        assert json.loads(json.dumps(told, allow_nan=False, ensure_ascii=False).encode()) == told
