"""Our server's tools that ask a person in the middle of their work: a provider whose calls wait for answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from surehand import Pending, Provider, Tool, tool
from tests.conformance import fixture_data
from tests.conformance.own_task_tools import task_options


class Form(NamedTuple):
    """One form that a person fills in."""

    message: str
    schema: Mapping[str, Any]

    @property
    def request(self) -> dict[str, Any]:
        return {"mode": "form", "message": self.message, "schema": dict(self.schema)}


Answers = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ElicitationTool:
    """The forms that a tool sends, round by round, and its result from the answers."""

    rounds: tuple[dict[str, Form], ...]
    render_result: Callable[[Answers], str]
    task_support: str = "forbidden"
    parameters: Mapping[str, Any] | None = None
    work_seconds: float = 0.0
    """Time that it works after the last answer."""


def _render_answers(answers: Answers) -> str:
    return f"Answered: {answers}"


def _content(answers: Answers, key: str, field: str) -> Any:
    return (answers[key].get("content") or {}).get(field, "nobody")


_CONFIRM_FORM = {"confirm": Form("Please confirm", fixture_data.OK_FORM)}
_NAME_FORM = {"user_name": Form("What is your name?", fixture_data.NAME_FORM)}
ELICITATION_TOOLS: dict[str, ElicitationTool] = {
    "test_elicitation": ElicitationTool(
        ({"answer": Form("Who are you?", fixture_data.PERSON_FORM)},),
        _render_answers,
        parameters=fixture_data.form_schema(message={"type": "string"}),
    ),
    "test_elicitation_sep1034_defaults": ElicitationTool(
        ({"answer": Form("Is this right?", fixture_data.DEFAULTS_FORM)},), _render_answers
    ),
    "test_elicitation_sep1330_enums": ElicitationTool(
        ({"answer": Form("Please choose.", fixture_data.ENUMS_FORM)},), _render_answers
    ),
    "test_streaming_elicitation": ElicitationTool((_CONFIRM_FORM,), _render_answers),
    "test_input_required_result_elicitation": ElicitationTool(
        (_NAME_FORM,), lambda answers: f"Hello, {_content(answers, *_NAME_FIELD)}!"
    ),
    "test_input_required_result_request_state": ElicitationTool(
        (_CONFIRM_FORM,), lambda answers: f"state-ok: {answers}"
    ),
    "test_input_required_result_tampered_state": ElicitationTool((_CONFIRM_FORM,), _render_answers),
    "test_input_required_result_multi_round": ElicitationTool(
        (
            {"step1": Form("Step 1: What is your name?", fixture_data.NAME_FORM)},
            {"step2": Form("Step 2: What is your favorite color?", fixture_data.COLOR_FORM)},
        ),
        lambda answers: f"{_content(answers, 'step1', 'name')} likes {_content(answers, 'step2', 'color')}.",
    ),
    "confirm_delete": ElicitationTool(
        ({"confirm": Form("Delete it?", fixture_data.CONFIRM_FORM)},),
        _render_answers,
        task_support="optional",
        parameters=fixture_data.form_schema(filename={"type": "string"}),
    ),
    "multi_input": ElicitationTool(
        (
            {
                "first": Form("Who is first?", fixture_data.NAME_FORM),
                "second": Form("Who is second?", fixture_data.NAME_FORM),
            },
        ),
        _render_answers,
        task_support="optional",
    ),
    "test_tool_with_task": ElicitationTool(
        (_NAME_FORM,),
        lambda answers: f"Done for {_content(answers, *_NAME_FIELD)}.",
        task_support="required",
        work_seconds=0.3,
    ),
}
_NAME_FIELD = ("user_name", "name")


class ElicitationTools(Provider):
    """A provider that keeps the answers so far in the state of the pending call."""

    namespace = "questions"

    async def tools(self) -> list[Tool[..., Any]]:
        return [
            tool.provided(
                name,
                "Asks a person in the middle of its work.",
                parameters=dict(definition.parameters or fixture_data.NO_PARAMETERS),
                effects={"read"},
                provider_options=task_options(definition.task_support),
            )
            for name, definition in ELICITATION_TOOLS.items()
        ]

    async def invoke(self, call: Any, context: Any) -> Any:
        return _next_round(call.tool.rpartition("__")[2], {})

    async def resume(self, call: Any, state: dict[str, Any], answer: Any, context: Any) -> Any:
        name, answers = state["tool"], {**state["answers"], **answer}
        if (pending := _next_round(name, answers)) is not None:
            return pending
        await asyncio.sleep(ELICITATION_TOOLS[name].work_seconds)
        return ELICITATION_TOOLS[name].render_result(answers)


def _next_round(name: str, answers: Answers) -> Pending | None:
    """The first round that is not answered, as a pending outcome."""
    for forms in ELICITATION_TOOLS[name].rounds:
        if not forms.keys() <= answers.keys():
            request = {"mode": "several", "requests": {key: form.request for key, form in forms.items()}}
            message = " ".join(form.message for form in forms.values())
            return Pending("input", message=message, request=request, state={"tool": name, "answers": answers})
    return None
