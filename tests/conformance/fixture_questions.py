"""Tools that ask a person in the middle of their work: a provider whose calls wait for answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from surehand import Pending, Provider, Tool, tool
from tests.conformance import material
from tests.conformance.fixture_jobs import as_task


class Form(NamedTuple):
    """One question."""

    message: str
    schema: Mapping[str, Any]

    @property
    def request(self) -> dict[str, Any]:
        return {"mode": "form", "message": self.message, "schema": dict(self.schema)}


Answers = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Asking:
    """What a tool asks, round by round, and what it says when it knows all of it."""

    rounds: tuple[dict[str, Form], ...]
    say: Callable[[Answers], str]
    support: str = "forbidden"
    takes: Mapping[str, Any] | None = None
    works: float = 0.0
    """Seconds that it works after the last answer."""


def _said(answers: Answers) -> str:
    return f"Answered: {answers}"


def _content(answers: Answers, key: str, field: str) -> Any:
    return (answers[key].get("content") or {}).get(field, "nobody")


_YES = {"confirm": Form("Please confirm", material.AGREE)}
_WHO = {"user_name": Form("What is your name?", material.NAME)}
ASKING: dict[str, Asking] = {
    "test_elicitation": Asking(
        ({"answer": Form("Who are you?", material.PERSON)},), _said, takes=material.fields(message={"type": "string"})
    ),
    "test_elicitation_sep1034_defaults": Asking(({"answer": Form("Is this right?", material.FILLED_IN)},), _said),
    "test_elicitation_sep1330_enums": Asking(({"answer": Form("Please choose.", material.CHOICES)},), _said),
    "test_streaming_elicitation": Asking((_YES,), _said),
    "test_input_required_result_elicitation": Asking((_WHO,), lambda given: f"Hello, {_content(given, *_NAME)}!"),
    "test_input_required_result_request_state": Asking((_YES,), lambda given: f"state-ok: {given}"),
    "test_input_required_result_tampered_state": Asking((_YES,), _said),
    "test_input_required_result_multi_round": Asking(
        (
            {"step1": Form("Step 1: What is your name?", material.NAME)},
            {"step2": Form("Step 2: What is your favorite color?", material.COLOUR)},
        ),
        lambda given: f"{_content(given, 'step1', 'name')} likes {_content(given, 'step2', 'color')}.",
    ),
    "confirm_delete": Asking(
        ({"confirm": Form("Delete it?", material.CONFIRM)},),
        _said,
        support="optional",
        takes=material.fields(filename={"type": "string"}),
    ),
    "multi_input": Asking(
        ({"first": Form("Who is first?", material.NAME), "second": Form("Who is second?", material.NAME)},),
        _said,
        support="optional",
    ),
    "test_tool_with_task": Asking(
        (_WHO,), lambda given: f"Done for {_content(given, *_NAME)}.", support="required", works=0.3
    ),
}
_NAME = ("user_name", "name")


class Questions(Provider):
    """It never waits for people: what it knows so far is the state of the wait."""

    namespace = "questions"

    async def tools(self) -> list[Tool[..., Any]]:
        return [
            tool.provided(
                name,
                "Asks a person in the middle of its work.",
                parameters=dict(asking.takes or material.NOTHING),
                effects={"read"},
                provider_options=as_task(asking.support),
            )
            for name, asking in ASKING.items()
        ]

    async def invoke(self, call: Any, context: Any) -> Any:
        return _ask(call.tool.rpartition("__")[2], {})

    async def resume(self, call: Any, state: dict[str, Any], answer: Any) -> Any:
        name, answers = state["tool"], {**state["answers"], **answer}
        if (pending := _ask(name, answers)) is not None:
            return pending
        await asyncio.sleep(ASKING[name].works)
        return ASKING[name].say(answers)


def _ask(name: str, answers: Answers) -> Pending | None:
    """The first round that is not answered."""
    for forms in ASKING[name].rounds:
        if not forms.keys() <= answers.keys():
            request = {"mode": "several", "requests": {key: form.request for key, form in forms.items()}}
            message = " ".join(form.message for form in forms.values())
            return Pending("input", message=message, request=request, state={"tool": name, "answers": answers})
    return None
