"""The MCP SDK server's prompts."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tests.conformance import fixture_data
from tests.conformance.sdk_request import SdkRequest, form_request

CONTEXT_FORM = fixture_data.form_schema(context={"type": "string"})
_ARGUMENTS_BY_PROMPT = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


async def list_prompts(context: Any, params: Any) -> types.ListPromptsResult:
    """List all prompts."""
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(
                name=name,
                description="A prompt for tests.",
                arguments=[types.PromptArgument(name=each, description="A text.", required=True) for each in arguments],
            )
            for name, arguments in _ARGUMENTS_BY_PROMPT.items()
        ]
    )


async def get_prompt(request: SdkRequest, name: str) -> types.GetPromptResult:
    """Render one prompt with its arguments."""
    match name:
        case "test_simple_prompt":
            return _messages("This is a simple prompt for testing.")
        case "test_prompt_with_arguments":
            return _messages(f"Prompt with arguments: {request.arguments}")
        case "test_prompt_with_embedded_resource":
            content = "Embedded resource content for testing."
            resource = types.TextResourceContents(
                uri=request.arguments["resourceUri"], mime_type="text/plain", text=content
            )
            return _messages(types.EmbeddedResource(resource=resource), "Please process the embedded resource above.")
        case "test_prompt_with_image":
            picture = types.ImageContent(data=fixture_data.PIXEL_BASE64, mime_type=fixture_data.PIXEL_TYPE)
            return _messages(picture, "Please analyze the image above.")
        case "test_input_required_result_prompt":
            answers = await request.ask(user_context=form_request("What context should the prompt use?", CONTEXT_FORM))
            return _messages(f"In this context: {answers['user_context']}")
    raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {name}")


async def complete(context: Any, params: Any) -> types.CompleteResult:
    """Return no completions."""
    return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))


def _messages(*parts: Any) -> types.GetPromptResult:
    blocks = [types.TextContent(text=part) if isinstance(part, str) else part for part in parts]
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=block) for block in blocks])
