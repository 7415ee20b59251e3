"""One request to the MCP SDK's server, and how it asks the client for input in either protocol version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from tests.conformance.sdk_server import SdkServer

FIRST_MODERN_REVISION = "2026-07-28"
_RESULT_TYPES: Mapping[str, type[Any]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}


class InputRequired(Exception):
    """Ends a request that the client must repeat with its answers."""

    def __init__(self, result: types.InputRequiredResult) -> None:
        super().__init__("input is required")
        self.result = result


class SdkRequest:
    """A request to a handler. In the modern protocol the handler runs again in each round, with all answers so far."""

    def __init__(self, server: SdkServer, context: ServerRequestContext[Any, Any], params: Any) -> None:
        self.server = server
        self.context = context
        self._params = params
        self.arguments: Mapping[str, Any] = params.arguments or {}

    @property
    def is_modern(self) -> bool:
        return self.context.protocol_version >= FIRST_MODERN_REVISION

    def client_supports(self, capability: str) -> bool:
        """Whether the client declares a capability."""
        return getattr(self.context.session.client_capabilities, capability, None) is not None

    def require_capability(self, capability: str) -> None:
        """Reject a client without the capability."""
        if not self.client_supports(capability):
            data = {"requiredCapabilities": {capability: {}}}
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, f"This needs {capability}.", data)

    async def ask(self, **requests: Any) -> dict[str, Any]:
        """The client's answers by request name, as JSON."""
        if not self.is_modern:
            return {key: await self._send_request(request) for key, request in requests.items()}
        answers = self._answers_so_far()
        if unanswered := {key: request for key, request in requests.items() if key not in answers}:
            raise InputRequired(types.InputRequiredResult(input_requests=unanswered, request_state=json.dumps(answers)))
        return {key: answers[key] for key in requests}

    async def _send_request(self, request: Any) -> dict[str, Any]:
        metadata = ServerMessageMetadata(related_request_id=self.context.request_id)
        answer = await self.context.session.send_request(request, _RESULT_TYPES[request.method], metadata=metadata)
        return _to_json(answer)

    def _answers_so_far(self) -> dict[str, Any]:
        new_answers = {key: _to_json(value) for key, value in (self._params.input_responses or {}).items()}
        earlier: dict[str, Any] = json.loads(self._params.request_state or "{}")
        return earlier | new_answers


def form_request(message: str, schema: Mapping[str, Any]) -> types.ElicitRequest:
    """An elicitation with a form."""
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=dict(schema)))


def sampling_request(prompt: str) -> types.CreateMessageRequest:
    """A sampling request to the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=100))


def roots_request() -> types.ListRootsRequest:
    """A request for the client's roots."""
    return types.ListRootsRequest()


def _to_json(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    return found
