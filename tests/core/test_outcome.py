"""The three outcomes of a call."""

import datetime as dt
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from surehand import Done, Failed, Outcome, Pending, Runtime, ToolError, tool
from surehand.core.content import Audio, File, Image, Json, Resource, Text
from surehand.core.errors import FAILURE_CODES, StillPending
from surehand.core.outcome import CallMeta


class Book(BaseModel):
    title: str


@dataclass
class Point:
    x: int


# Done


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("plain", "plain"),
        (3, "3"),
        (1.5, "1.5"),
        (True, "true"),
        ([1, "a"], '[1,"a"]'),
        ({"ü": None}, '{"ü":null}'),
        (Book(title="Emma"), '{"title":"Emma"}'),
        (Point(1), '{"x":1}'),
        (dt.date(2024, 2, 29), '"2024-02-29"'),
        (Path("a/b"), '"a/b"'),
        (b"\xff", '"_w=="'),
        (float("inf"), '"Infinity"'),
    ],
    ids=repr,
)
def test_text_is_a_string_as_it_is_and_anything_else_as_json(data: Any, text: str) -> None:
    assert Done(data).text == text
    assert Done(data).data is data


@pytest.mark.parametrize("done", [Done(), Done(None), Done(""), Done(content=[]), Done(content=[Text("")])])
def test_text_is_never_empty(done: Done) -> None:
    assert done.text == "(no output)"


def test_content_is_worked_out_from_the_data() -> None:
    assert Done("hello").content == (Text("hello"),)
    assert Done().content == (Text("(no output)"),)
    assert Done({"a": 1}).content == (Json({"a": 1}, '{"a":1}'),)


def test_content_blocks_of_the_handler_are_the_text_for_the_model() -> None:
    blocks = [
        Text("Look:"),
        Json({"a": 1}),
        Json([1], "one"),
        Image("AAAA"),
        Audio(url="https://x.org/a.wav"),
        File("AAAA", "text/csv", "a.csv"),
        Resource("file:///a"),
        Resource("file:///b", text="inside"),
    ]

    done = Done("data", content=blocks)

    assert done.content == tuple(blocks)
    assert done.data == "data"
    assert done.text.splitlines() == [
        "Look:",
        '{"a":1}',
        "one",
        "[image: image/png, 3 bytes]",
        "[audio: audio/wav, https://x.org/a.wav]",
        "[file: text/csv, 3 bytes]",
        "[resource: file:///a]",
        "inside",
    ]


def test_a_done_carries_a_title_metadata_and_attachments() -> None:
    done = Done("x", title="Title", metadata={"rows": 3}, attachments=[Image("AAAA")])

    assert (done.title, done.metadata, done.attachments) == ("Title", {"rows": 3}, (Image("AAAA"),))
    assert (Done().title, dict(Done().metadata), Done().attachments) == (None, {}, ())


def test_clipping_changes_the_text_and_keeps_the_data() -> None:
    clipped = Done([1, 2, 3], title="T").with_clipped_text("[1, ...")

    assert (clipped.text, clipped.content, clipped.data) == ("[1, ...", (Text("[1, ..."),), [1, 2, 3])
    assert clipped.title == "T"


def test_evolving_data_works_the_text_out_anew() -> None:
    done = Done([1]).serialize_data()

    assert done.evolve(data=[2]).text == "[2]"
    assert done.with_clipped_text("short").evolve(content=[Text("other")]).text == "other"
    assert done.text == "[1]"


# Failed


def test_a_failure_shows_its_message() -> None:
    failed = Failed("timed_out", "timed out after 30 s.")

    assert failed.text == "(tool failed: timed out after 30 s.)"
    assert failed.content == (Text(failed.text),)
    assert not failed.ok
    assert not failed.executed


def test_a_failure_without_a_message_shows_its_code() -> None:
    assert Failed("rate_limited").message == "rate limited"


def test_a_failure_has_a_known_code() -> None:
    assert "unknown_effect" in FAILURE_CODES
    with pytest.raises(ValueError, match="'oops' is not a failure code"):
        Failed("oops")  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(ValueError, match="'oops' is not a failure code"):
        ToolError("x", code="oops")  # type: ignore[arg-type]  # the point of the test


# Pending


def test_a_pending_call_tells_its_id() -> None:
    pending = Pending("approval", "c1", "Allow it?", request={"type": "object"}, expires_at=9.0, state={"n": 1})

    assert json.loads(pending.text) == {
        "status": "pending",
        "pendingToolCallId": "c1",
        "waiting_for": "approval",
        "message": "Allow it?",
        "next": "The answer comes later. Go on with other work, and do not repeat the call.",
    }
    assert pending.content == (Text(pending.text),)
    assert (pending.request, pending.expires_at, pending.state) == ({"type": "object"}, 9.0, {"n": 1})
    assert not pending.ok


# What they share

EACH = [Done([1]), Failed("failed", "no"), Pending("result", "c1")]


def test_unwrapping_gives_the_data_or_raises() -> None:
    assert Done([1]).unwrap() == [1]
    with pytest.raises(ToolError, match="slow down") as caught:
        Failed("rate_limited", "slow down", data={"n": 1}, retry_after=3.0).unwrap()
    assert (caught.value.code, caught.value.data, caught.value.retry_after) == ("rate_limited", {"n": 1}, 3.0)
    with pytest.raises(StillPending, match="c1 is still waiting for result") as waiting:
        Pending("result", "c1").unwrap()
    assert (waiting.value.code, waiting.value.data) == ("interrupted", "c1")


@pytest.mark.parametrize("outcome", EACH, ids=repr)
def test_an_outcome_never_changes(outcome: Outcome) -> None:
    with pytest.raises(AttributeError, match=r"Use evolve\(data=\.\.\.\)"):
        outcome.data = 2  # type: ignore[union-attr, misc, assignment]  # the point of the test
    with pytest.raises(TypeError, match="unhashable"):
        hash(outcome)


@pytest.mark.parametrize("outcome", EACH, ids=repr)
def test_evolving_makes_a_changed_copy_and_refuses_unknown_parts(outcome: Outcome) -> None:
    assert outcome.evolve() == outcome
    assert outcome.evolve() is not outcome
    with pytest.raises(TypeError, match="has no colour"):
        outcome.evolve(colour="red")


def test_evolving_leaves_the_first_as_it_was() -> None:
    failed = Failed("failed", "no", data=1)

    assert failed.evolve(executed=True) == Failed("failed", "no", data=1, executed=True)
    assert failed == Failed("failed", "no", data=1)


def test_outcomes_are_equal_by_their_parts() -> None:
    assert Done({"a": 1, "b": 2}) == Done({"b": 2, "a": 1}).serialize_data()
    assert Done(1) != Done(2)
    assert Done(1) != Done(1, title="x")
    assert Done(1) != Done(1, content=[Text("one")])
    assert Failed("failed", "x") != Failed("crashed", "x")
    assert Pending("result", "a") != Pending("result", "b")
    assert Done(None) != Failed("failed")
    assert Done(1) != 1


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [
        (Done(3), "Done(data=3)"),
        (Done(0), "Done(data=0)"),
        (Done(), "Done()"),
        (Done("x", title="T"), "Done(data='x', title='T')"),
        (Failed("failed", "no"), "Failed(code='failed', message='no')"),
        (Failed("failed", "no", executed=True), "Failed(code='failed', message='no', executed=True)"),
        (Pending("result", "c1"), "Pending(waiting_for='result', call_id='c1')"),
    ],
)
def test_a_repr_shows_what_was_given(outcome: Outcome, shown: str) -> None:
    assert repr(outcome) == shown


def test_a_repr_stays_short() -> None:
    assert len(repr(Done("x" * 100_000))) < 500
    assert len(repr(Done([["x" * 1_000] * 1_000] * 1_000))) < 20_000


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (Done(3), "three"),
        (Done({"a": 1}), "a=1"),
        (Failed("timed_out", "late"), "late"),
        (Failed("failed", "no"), "failed: no"),
        (Pending("approval", "c1"), "ask c1"),
        (Pending("result", "c1"), "wait"),
    ],
)
def test_outcomes_are_matched_by_case(outcome: Outcome, word: str) -> None:
    match outcome:
        case Done(3):
            found = "three"
        case Done(data={"a": a}):
            found = f"a={a}"
        case Failed("timed_out", message):
            found = message
        case Failed(code=code, message=message):
            found = f"{code}: {message}"
        case Pending("approval", call_id):
            found = f"ask {call_id}"
        case _:
            found = "wait"

    assert found == word


def test_an_outcome_of_no_call_has_an_empty_meta() -> None:
    assert Done(1).meta == CallMeta()
    assert (CallMeta().call_id, CallMeta().attempts, CallMeta().cached, CallMeta().tokens) == ("", 0, False, 0)


async def test_an_outcome_knows_the_call_it_came_from() -> None:
    @tool
    async def shout(word: str) -> str:
        return word.upper()

    async with Runtime(shout) as runtime:
        outcome = await runtime.call("shout", {"word": "hello"})

    meta = outcome.meta
    assert (meta.tool, meta.kind, meta.attempts, meta.cached) == ("shout", "function", 1, False)
    assert (meta.characters_out, meta.tokens) == (5, 2)
    assert len(meta.call_id) == 36
    assert meta == outcome.meta
    assert outcome == Done("HELLO")
    assert outcome.evolve(data="x").meta == CallMeta()
