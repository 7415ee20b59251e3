"""Outcomes in a cassette file are restored with exactly the same text."""

import json
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from surehand import Done, Failed, Outcome, Pending
from surehand.core.content import Audio, File, Image, Json, Resource, Text
from surehand.core.errors import FAILURE_CODES
from surehand.core.invoke import outcome_from_value
from surehand.testing.cassettes.serialization import json_converter, outcome_from_json, outcome_to_json


class Person(BaseModel):
    name: str
    born: date


@dataclass
class Point:
    x: float
    y: Decimal


def again(outcome: Outcome) -> Outcome:
    return outcome_from_json(json.loads(json.dumps(outcome_to_json(outcome, json_converter()), allow_nan=False)))


def shown(outcome: Done) -> list[tuple[str, str]]:
    return [(block.type, getattr(block, "text", "") or "") for block in outcome.content]


VALUES = [
    None, "", "text", "two\nlines\n", "\n", 0, 3, True, 2**70, 1.0, 1e22, float("nan"), float("-inf"), [], {},
    [1, None], {"b": 1, "a": [1.5, "é\U0001f600"]}, {1: 2, None: 3}, {"x": float("inf")}, b"bytes", Path("a/b"),
    date(2020, 1, 2),
    Person(name="Ada", born=date(1815, 12, 10)), [Point(1, Decimal("1.10"))], {"set": {3}}, (1, 2), "half \ud800",
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_keeps_its_text_and_its_blocks(value) -> None:
    outcome = outcome_from_value("t", value)
    same = again(outcome)

    assert same.text == outcome.text
    assert shown(same) == shown(outcome)


@settings(max_examples=100)
@given(st.lists(st.integers() | st.floats() | st.text()) | st.dictionaries(st.text(), st.floats()) | st.text())
def test_any_json_value_keeps_its_text(value) -> None:
    try:
        outcome = outcome_from_value("t", value)
        outcome.text.encode()
    except UnicodeEncodeError:
        return

    assert again(outcome).text == outcome.text


@pytest.mark.parametrize("data", [None, 0, "", "x", [], {"b": 1, "a": [2]}])
def test_plain_data_is_restored_as_an_equal_outcome(data) -> None:
    assert again(Done(data)) == Done(data)


def test_everything_that_a_handler_may_add_is_restored() -> None:
    blocks = [
        Text("a\nb"), Text(""), Json({"k": 1}), Json(None), Json("", "shown"), Image("aGk=", "image/gif"),
        Image(url="https://example.com/i.png"), Audio("aGk="), File("aGk=", filename="a.bin"),
        Resource("file:///a", text="A"),
    ]  # fmt: skip
    outcome = Done({"n": 1}, content=blocks, title="T", metadata={"rows": [1]}, attachments=blocks)

    assert again(outcome) == outcome
    assert again(Done("x", content=[])).content == ()
    assert again(Done([1]).with_clipped_text("short")).text == "short"


@pytest.mark.parametrize("code", sorted(FAILURE_CODES))
@pytest.mark.parametrize("executed", [True, False])
@pytest.mark.parametrize("data", [None, 0, [], {"a": 1}])
def test_a_failure_is_restored_whole(code, executed, data) -> None:
    failure = Failed(code, "went\nwrong", executed=executed, data=data, retry_after=0.0 if executed else None)

    assert again(failure) == failure
    assert again(failure).retry_after == failure.retry_after


def test_a_pending_outcome_is_stored_without_call_id_expiry_and_state() -> None:
    pending = Pending("input", "c1", "Which?", {"schema": {}}, 5.0, state=object(), reply_timeout=3)

    assert again(pending) == Pending("input", "", "Which?", {"schema": {}})


def test_default_values_are_left_out_and_lines_are_a_list() -> None:
    assert outcome_to_json(Done(3), json_converter()) == {"done": 3}
    assert outcome_to_json(Done("a\nb\n"), json_converter()) == {"lines": ["a", "b", ""]}
    assert outcome_to_json(Failed("failed", "no"), json_converter()) == {"failed": "failed", "message": "no"}


def test_secrets_are_masked_in_keys_values_and_messages() -> None:
    plain = json_converter(["hunter2"])
    done = Done({"hunter2": ["a hunter2"]}, title="hunter2", metadata={"k": "hunter2"}, attachments=[Text("hunter2")])

    assert "hunter2" not in json.dumps(outcome_to_json(done, plain))
    assert "hunter2" not in json.dumps(outcome_to_json(Failed("failed", "hunter2", data="hunter2"), plain))
    assert "hunter2" not in json.dumps(
        outcome_to_json(Pending("input", message="hunter2", request={"a": "hunter2"}), plain)
    )


def test_a_value_that_json_cannot_represent_does_not_break_the_recording() -> None:
    assert outcome_to_json(Done(1, metadata={"o": Exception("odd")}), json_converter())["metadata"] == {"o": "odd"}
