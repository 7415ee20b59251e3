"""One request to the library's server: what it has to ask is asked as the protocol of its client does it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from tests.conformance.library_fixture import Fixture

FIRST_MODERN = "2026-07-28"
_RESULTS: Mapping[str, type[Any]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}


class Asked(Exception):
    """Ends a request that has to be made again, with the answers."""

    def __init__(self, result: types.InputRequiredResult) -> None:
        super().__init__("input is required")
        self.result = result


class Turn:
    """A handler is run again for each round, and comes further each time: what was answered once stays answered."""

    def __init__(self, fixture: Fixture, context: ServerRequestContext[Any, Any], params: Any) -> None:
        self.fixture, self.context, self._params = fixture, context, params
        self.arguments: Mapping[str, Any] = params.arguments or {}

    @property
    def modern(self) -> bool:
        return self.context.protocol_version >= FIRST_MODERN

    def can(self, capability: str) -> bool:
        """Whether the client says that it can be asked that."""
        return getattr(self.context.session.client_capabilities, capability, None) is not None

    def need(self, capability: str) -> None:
        """Refuse a client that cannot."""
        if not self.can(capability):
            needed = {"requiredCapabilities": {capability: {}}}
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, f"This needs {capability}.", needed)

    async def ask(self, **requests: Any) -> dict[str, Any]:
        """The answers, by the names of the requests, as on the wire."""
        if not self.modern:
            return {key: await self._asked(request) for key, request in requests.items()}
        known = self._known()
        if open_ones := {key: request for key, request in requests.items() if key not in known}:
            raise Asked(types.InputRequiredResult(input_requests=open_ones, request_state=json.dumps(known)))
        return {key: known[key] for key in requests}

    async def _asked(self, request: Any) -> dict[str, Any]:
        where = ServerMessageMetadata(related_request_id=self.context.request_id)
        answer = await self.context.session.send_request(request, _RESULTS[request.method], metadata=where)
        return _written(answer)

    def _known(self) -> dict[str, Any]:
        given = {key: _written(value) for key, value in (self._params.input_responses or {}).items()}
        earlier: dict[str, Any] = json.loads(self._params.request_state or "{}")
        return earlier | given


def form(message: str, schema: Mapping[str, Any]) -> types.ElicitRequest:
    """A question to a person."""
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=dict(schema)))


def sample(prompt: str) -> types.CreateMessageRequest:
    """A question to the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=100))


def roots() -> types.ListRootsRequest:
    """Which folders the client works in."""
    return types.ListRootsRequest()


def _written(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    return found
