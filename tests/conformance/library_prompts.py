"""The prompts that the suite expects of a server, on the library alone."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tests.conformance import material
from tests.conformance.library_turn import Turn, form

CONTEXT = material.fields(context={"type": "string"})
_TAKES = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


async def listed(context: Any, params: Any) -> types.ListPromptsResult:
    """All of them."""
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=name,
                description="A prompt for tests.",
                arguments=[types.PromptArgument(name=each, description="A text.", required=True) for each in arguments],
            )
            for name, arguments in _TAKES.items()
        ]
    )


async def given(turn: Turn, name: str) -> types.GetPromptResult:
    """One of them, filled in."""
    match name:
        case "test_simple_prompt":
            return _messages("This is a simple prompt for testing.")
        case "test_prompt_with_arguments":
            return _messages(f"Prompt with arguments: {turn.arguments}")
        case "test_prompt_with_embedded_resource":
            uri, kind, words = turn.arguments["resourceUri"], "text/plain", "Embedded resource content for testing."
            found = types.TextResourceContents(uri=uri, mime_type=kind, text=words)
            return _messages(types.EmbeddedResource(resource=found), "Please process the embedded resource above.")
        case "test_prompt_with_image":
            picture = types.ImageContent(data=material.PIXEL, mime_type=material.PIXEL_TYPE)
            return _messages(picture, "Please analyze the image above.")
        case "test_input_required_result_prompt":
            found = await turn.ask(user_context=form("What context should the prompt use?", CONTEXT))
            return _messages(f"In this context: {found['user_context']}")
    raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {name}")


async def complete(context: Any, params: Any) -> types.CompleteResult:
    """Nothing comes to mind."""
    return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))


def _messages(*parts: Any) -> types.GetPromptResult:
    blocks = [types.TextContent(text=part) if isinstance(part, str) else part for part in parts]
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=block) for block in blocks])
