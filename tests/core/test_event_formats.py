"""Events in the formats of four families of event streams."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from surehand.core.event_formats import format_event
from surehand.core.events import (
    AgentActive,
    AgentInactive,
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
    SpaceMessageDelta,
    SpaceMessageFailed,
    SpaceMessagePosted,
    ToolInputDelta,
)
from surehand.core.outcome import CallMeta, Done, Failed, Outcome, Pending, attach_origin

FAMILIES = ["spaces", "agent", "bus", "session"]


class Measurements:
    """A call that took 234 ms."""

    def __init__(self, kind: str = "mcp") -> None:
        self.kind = kind

    def build_meta(self, outcome: Outcome) -> CallMeta:
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


def format_or_fail(event: Event, family: str) -> dict[str, Any]:
    formatted = format_event(event, family)
    assert formatted is not None
    return formatted


def test_spaces_get_the_start_of_a_call_with_its_input() -> None:
    assert format_event(STARTED, "spaces") == {
        "type": "tool-call.start",
        "streamId": "c1",
        "toolCallId": "c1",
        "toolName": "github__search",
        "timestamp": 1000,
        "input": {"query": "foo"},
    }


def test_spaces_get_the_display_settings_of_a_call() -> None:
    event = CallStarted("c1", "confirm", display={"customUI": "confirmAction"})

    assert format_or_fail(event, "spaces")["display"] == {"customUI": "confirmAction"}


def test_spaces_see_input_being_written_and_results_on_their_way() -> None:
    delta = format_or_fail(CallProgress("c1", "t", data={"input_delta": '{"a'}), "spaces")
    step = format_or_fail(CallProgress("c1", "t", message="half way", fraction=0.5, data={"rows": 3}), "spaces")

    assert (delta["type"], delta["delta"]) == ("tool-input-delta", '{"a')
    assert (step["type"], step["preliminary"]) == ("tool-result", True)
    assert step["output"] == {"text": "half way", "fraction": 0.5, "rows": 3}


def test_spaces_get_the_end_of_a_call() -> None:
    complete = format_or_fail(ended(Done({"hits": 2})), "spaces")
    error = format_or_fail(ended(Failed("timed_out", "timed out after 30 s")), "spaces")

    assert (complete["type"], complete["output"]) == ("tool-call.complete", {"hits": 2})
    assert (error["type"], error["error"], error["code"]) == ("tool-call.error", "timed out after 30 s", "timed_out")


def test_agents_get_the_start_of_a_call() -> None:
    formatted = format_or_fail(STARTED, "agent")

    assert (formatted["type"], formatted["tool"], formatted["namespace"]) == (
        "tool_started",
        "github__search",
        "github",
    )


def test_agents_get_the_measurements_of_a_finished_call() -> None:
    formatted = format_or_fail(ended(Done("four")), "agent")

    assert formatted["type"] == "tool_finished"
    assert {
        name: formatted[name] for name in ("status", "latencyMs", "charactersIn", "charactersOut", "namespace")
    } == {
        "status": "ok",
        "latencyMs": 234,
        "charactersIn": 12,
        "charactersOut": 4,
        "namespace": "github",
    }
    assert "error" not in formatted


def test_agents_get_the_reason_of_a_failure() -> None:
    formatted = format_or_fail(ended(Failed("timed_out", "timeout")), "agent")

    assert (formatted["status"], formatted["error"]) == ("failed", "(tool failed: timeout)")


def test_the_bus_has_numbers_for_its_three_events() -> None:
    events: list[Event] = [STARTED, ended(Done([1])), ended(Failed("failed", "no"))]

    assert [
        (formatted["type"], formatted["code"], formatted["payload"])
        for formatted in (format_or_fail(event, "bus") for event in events)
    ] == [
        ("TOOL_CALL_REQUESTED", 400, {"toolName": "github__search", "params": {"query": "foo"}}),
        ("TOOL_CALL_COMPLETED", 410, {"toolName": "github__search", "result": [1], "durationMs": 234}),
        ("TOOL_CALL_FAILED", 420, {"toolName": "github__search", "error": "no"}),
    ]


def test_the_bus_names_the_task_where_it_is_known() -> None:
    formatted = format_event(STARTED, "bus", task="t7")

    assert formatted is not None
    assert (formatted["taskId"], formatted["timestamp"]) == ("t7", 1000)
    assert "taskId" not in format_or_fail(STARTED, "bus")


def test_a_session_gets_the_call_and_its_result() -> None:
    assert format_or_fail(STARTED, "session") == {
        "type": "tool_call",
        "callId": "c1",
        "name": "github__search",
        "input": {"query": "foo"},
        "startedAt": 1000,
        "completedAt": 1000,
    }
    assert format_or_fail(ended(Done("yes"), "client"), "session") == {
        "type": "tool_result",
        "callId": "c1",
        "name": "github__search",
        "result": "yes",
        "isError": False,
        "executedBy": "client",
        "startedAt": 1000,
        "completedAt": 1234,
    }


def test_a_session_gets_failures_as_results() -> None:
    formatted = format_or_fail(ended(Failed("failed", "no"), "function"), "session")

    assert (formatted["isError"], formatted["result"], formatted["executedBy"]) == (True, "(tool failed: no)", "engine")


@pytest.mark.parametrize(("yes", "no"), [("approve", "reject"), ("approved", "rejected")])
def test_a_session_gets_the_confirmation_and_its_result(yes: str, no: str) -> None:
    asked = CallPending("c1", "pay", "approval", "Pay 5?", {"preview": 5}, {"amount": 5})
    answer = CallSettled("c1", "pay", yes, "approval", always=True)
    refusal = CallSettled("c1", "pay", no, "approval", reason="too much")

    assert format_or_fail(asked, "session") == {
        "type": "tool_confirmation_required",
        "callId": "c1",
        "name": "pay",
        "input": {"amount": 5},
        "message": "Pay 5?",
        "metadata": {"preview": 5},
    }
    assert format_or_fail(answer, "session") == {
        "type": "tool_confirmation_result",
        "callId": "c1",
        "confirmed": True,
        "always": True,
    }
    assert format_or_fail(refusal, "session")["confirmed"] is False
    assert format_or_fail(refusal, "session")["reason"] == "too much"


def test_a_call_whose_arguments_are_being_written_begins_before_it_starts() -> None:
    begins = ToolInputDelta("", "search", 0, "r1.0.0", at=1.0)
    written = ToolInputDelta('{"query"', "search", 0, "r1.0.0", at=1.0)
    ids = {"streamId": "r1.0.0", "toolCallId": "r1.0.0", "toolName": "search", "timestamp": 1000}

    assert format_event(begins, "spaces") == {"type": "tool-call.start", **ids}
    assert format_event(written, "spaces") == {"type": "tool-input-delta", **ids, "delta": '{"query"'}
    assert format_or_fail(begins, "session") == {"type": "tool_call_start", "callId": "r1.0.0", "name": "search"}
    assert format_or_fail(written, "session")["type"] == "tool_call_delta"
    assert [format_event(written, family) for family in ("agent", "bus")] == [None, None]


def test_only_spaces_tell_when_an_agent_works_in_them() -> None:
    active = AgentActive("team", "r1", "planner", at=1.0)
    inactive = AgentInactive("team", "r1", "planner", at=2.0)
    ids = {"spaceId": "team", "agentId": "planner", "runId": "r1"}

    assert format_event(active, "spaces") == {"type": "agent.active", **ids, "timestamp": 1000}
    assert format_event(inactive, "spaces") == {"type": "agent.inactive", **ids, "timestamp": 2000}
    assert [format_event(active, family) for family in ("agent", "bus", "session")] == [None] * 3


def test_only_spaces_see_a_message_while_it_is_written() -> None:
    owner = ("team", "c1", "r1", "planner", None, None, 1.0)
    events = [
        SpaceMessageDelta("", *owner),
        SpaceMessageDelta("Hel", *owner),
        SpaceMessagePosted(*owner),
        SpaceMessageFailed("It broke.", *owner),
    ]
    ids = {"spaceId": "team", "agentId": "planner", "runId": "r1", "timestamp": 1000, "streamId": "c1"}

    assert [format_event(event, "spaces") for event in events] == [
        {"type": "space.message.streaming", **ids, "phase": "start"},
        {"type": "space.message.streaming", **ids, "phase": "delta", "delta": "Hel"},
        {"type": "space.message.streaming", **ids, "phase": "done"},
        {"type": "space.message.failed", **ids, "error": "It broke."},
    ]
    assert {format_event(event, family) for event in events for family in ("agent", "bus", "session")} == {None}


@pytest.mark.parametrize("family", FAMILIES)
def test_arguments_of_a_call_without_an_id_are_not_shown(family: str) -> None:
    assert format_event(ToolInputDelta("{}", "search", 0, None, "call_1"), family) is None


def test_a_session_sees_input_being_written_and_a_call_going_on() -> None:
    assert format_or_fail(CallProgress("c1", "t", data={"input_delta": "x"}), "session")["type"] == "tool_call_delta"
    assert format_or_fail(CallResumed("c1", "t"), "session") == {
        "type": "tool_result_start",
        "callId": "c1",
        "name": "t",
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_a_call_that_still_waits_has_not_ended_for_anybody(family: str) -> None:
    assert format_event(CallEnded("c1", "t", Pending("result", "c1")), family) is None


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("event", [CallQueued("c1", "t", "bank", 2), CatalogueChanged(("a",)), Missed(3)])
def test_an_event_that_a_family_does_not_have_is_none(event: Event, family: str) -> None:
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
def test_every_formatted_event_is_plain_json(family: str) -> None:
    values = {"when": datetime(2026, 1, 1, tzinfo=UTC), "raw": b"\xff", "odd": object(), "nan": float("nan")}

    for event in (CallStarted("c1", "t", values), CallEnded("c1", "t", Done(values)), CallStarted("c1", "t", "\ud800")):
        formatted = format_event(event, family)
        assert json.loads(json.dumps(formatted, allow_nan=False, ensure_ascii=False).encode()) == formatted
