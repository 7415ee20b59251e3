"""The MCP SDK server's tools that ask the client for input: elicitation, sampling and roots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.conformance import fixture_data
from tests.conformance.sdk_request import SdkRequest, form_request, roots_request, sampling_request
from tests.conformance.sdk_tool_registry import ToolRegistry

INPUT_TOOLS = register = ToolRegistry()


@register("test_sampling", "Asks the client's model.", fixture_data.form_schema(prompt={"type": "string"}))
async def sampling(request: SdkRequest) -> str:
    request.require_capability("sampling")
    answers = await request.ask(answer=sampling_request(request.arguments["prompt"]))
    return f"LLM response: {answers['answer']['content']['text']}"


@register("test_elicitation", "Asks a person.", fixture_data.form_schema(message={"type": "string"}))
async def elicitation(request: SdkRequest) -> str:
    answers = await request.ask(answer=form_request(request.arguments["message"], fixture_data.PERSON_FORM))
    return f"User response: {answers['answer']}"


@register("test_elicitation_sep1034_defaults", "Asks with a form that is filled in.")
async def elicitation_defaults(request: SdkRequest) -> str:
    answers = await request.ask(answer=form_request("Is this right?", fixture_data.DEFAULTS_FORM))
    return f"Elicitation completed: {answers['answer']}"


@register("test_elicitation_sep1330_enums", "Asks to choose, in every way.")
async def elicitation_enums(request: SdkRequest) -> str:
    answers = await request.ask(answer=form_request("Please choose.", fixture_data.ENUMS_FORM))
    return f"Elicitation completed: {answers['answer']}"


@register("test_missing_capability", "Works only where the client has a model.")
async def missing_capability(request: SdkRequest) -> str:
    request.require_capability("sampling")
    return "The client has a model."


@register("test_streaming_elicitation", "Asks a person while its answer is awaited.")
async def streaming_elicitation(request: SdkRequest) -> str:
    answers = await request.ask(confirm=form_request("Go on?", fixture_data.OK_FORM))
    return f"Went on: {answers['confirm']}"


@register("test_input_required_result_elicitation", "Asks for a name.")
async def ask_for_name(request: SdkRequest) -> str:
    answers = await request.ask(user_name=form_request("What is your name?", fixture_data.NAME_FORM))
    return f"Hello, {_content(answers['user_name'], 'name')}!"


@register("test_input_required_result_sampling", "Asks the client's model for a capital.")
async def ask_model(request: SdkRequest) -> str:
    answers = await request.ask(capital_question=sampling_request("What is the capital of France?"))
    return str(answers["capital_question"]["content"]["text"])


@register("test_input_required_result_list_roots", "Asks for the client's folders.")
async def ask_for_roots(request: SdkRequest) -> str:
    return str((await request.ask(client_roots=roots_request()))["client_roots"])


@register("test_input_required_result_request_state", "Asks for a yes.")
async def ask_for_confirmation(request: SdkRequest) -> str:
    answers = await request.ask(confirm=form_request("Please confirm", fixture_data.OK_FORM))
    return f"state-ok: {answers['confirm']}"


@register("test_input_required_result_tampered_state", "Asks for a yes, and looks whether it is one.")
async def ask_with_tampered_state(request: SdkRequest) -> str:
    return str(await request.ask(confirm=form_request("Please confirm", fixture_data.OK_FORM)))


@register("test_input_required_result_multiple_inputs", "Asks a person, a model and for folders at once.")
async def ask_for_multiple_inputs(request: SdkRequest) -> str:
    answers = await request.ask(
        user_name=form_request("What is your name?", fixture_data.NAME_FORM),
        greeting=sampling_request("Generate a greeting"),
        client_roots=roots_request(),
    )
    return str(answers)


@register("test_input_required_result_multi_round", "Asks twice.")
async def ask_in_two_rounds(request: SdkRequest) -> str:
    first = await request.ask(step1=form_request("Step 1: What is your name?", fixture_data.NAME_FORM))
    second = await request.ask(step2=form_request("Step 2: What is your favorite color?", fixture_data.COLOR_FORM))
    return f"{_content(first['step1'], 'name')} likes {_content(second['step2'], 'color')}."


@register("test_input_required_result_capabilities", "Asks whomever the client says can be asked.")
async def ask_by_capability(request: SdkRequest) -> str:
    requests = {
        "sampling": sampling_request("Say something"),
        "elicitation": form_request("Say something", fixture_data.NAME_FORM),
    }
    return str(
        await request.ask(
            **{capability: requests[capability] for capability in requests if request.client_supports(capability)}
        )
    )


def _content(answer: Mapping[str, Any], field: str) -> Any:
    return (answer.get("content") or {}).get(field, "nobody")
