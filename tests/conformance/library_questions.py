"""The tools that the suite expects of a server and that ask before they answer, on the library alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.conformance import material
from tests.conformance.library_offer import Offer
from tests.conformance.library_turn import Turn, form, roots, sample

ASKING = offers = Offer()


@offers("test_sampling", "Asks the client's model.", material.fields(prompt={"type": "string"}))
async def sampling(turn: Turn) -> str:
    turn.need("sampling")
    found = await turn.ask(answer=sample(turn.arguments["prompt"]))
    return f"LLM response: {found['answer']['content']['text']}"


@offers("test_elicitation", "Asks a person.", material.fields(message={"type": "string"}))
async def elicitation(turn: Turn) -> str:
    found = await turn.ask(answer=form(turn.arguments["message"], material.PERSON))
    return f"User response: {found['answer']}"


@offers("test_elicitation_sep1034_defaults", "Asks with a form that is filled in.")
async def elicitation_defaults(turn: Turn) -> str:
    found = await turn.ask(answer=form("Is this right?", material.FILLED_IN))
    return f"Elicitation completed: {found['answer']}"


@offers("test_elicitation_sep1330_enums", "Asks to choose, in every way.")
async def elicitation_enums(turn: Turn) -> str:
    found = await turn.ask(answer=form("Please choose.", material.CHOICES))
    return f"Elicitation completed: {found['answer']}"


@offers("test_missing_capability", "Works only where the client has a model.")
async def missing_capability(turn: Turn) -> str:
    turn.need("sampling")
    return "The client has a model."


@offers("test_streaming_elicitation", "Asks a person while its answer is awaited.")
async def streaming_elicitation(turn: Turn) -> str:
    found = await turn.ask(confirm=form("Go on?", material.AGREE))
    return f"Went on: {found['confirm']}"


@offers("test_input_required_result_elicitation", "Asks for a name.")
async def needs_a_name(turn: Turn) -> str:
    found = await turn.ask(user_name=form("What is your name?", material.NAME))
    return f"Hello, {_content(found['user_name'], 'name')}!"


@offers("test_input_required_result_sampling", "Asks the client's model for a capital.")
async def needs_a_model(turn: Turn) -> str:
    found = await turn.ask(capital_question=sample("What is the capital of France?"))
    return str(found["capital_question"]["content"]["text"])


@offers("test_input_required_result_list_roots", "Asks for the client's folders.")
async def needs_folders(turn: Turn) -> str:
    return str((await turn.ask(client_roots=roots()))["client_roots"])


@offers("test_input_required_result_request_state", "Asks for a yes.")
async def needs_a_yes(turn: Turn) -> str:
    found = await turn.ask(confirm=form("Please confirm", material.AGREE))
    return f"state-ok: {found['confirm']}"


@offers("test_input_required_result_tampered_state", "Asks for a yes, and looks whether it is one.")
async def needs_a_real_yes(turn: Turn) -> str:
    return str(await turn.ask(confirm=form("Please confirm", material.AGREE)))


@offers("test_input_required_result_multiple_inputs", "Asks a person, a model and for folders at once.")
async def needs_everybody(turn: Turn) -> str:
    found = await turn.ask(
        user_name=form("What is your name?", material.NAME),
        greeting=sample("Generate a greeting"),
        client_roots=roots(),
    )
    return str(found)


@offers("test_input_required_result_multi_round", "Asks twice.")
async def needs_two_rounds(turn: Turn) -> str:
    first = await turn.ask(step1=form("Step 1: What is your name?", material.NAME))
    second = await turn.ask(step2=form("Step 2: What is your favorite color?", material.COLOUR))
    return f"{_content(first['step1'], 'name')} likes {_content(second['step2'], 'color')}."


@offers("test_input_required_result_capabilities", "Asks whomever the client says can be asked.")
async def needs_somebody(turn: Turn) -> str:
    known = {"sampling": sample("Say something"), "elicitation": form("Say something", material.NAME)}
    return str(await turn.ask(**{capability: known[capability] for capability in known if turn.can(capability)}))


def _content(answer: Mapping[str, Any], field: str) -> Any:
    return (answer.get("content") or {}).get(field, "nobody")
