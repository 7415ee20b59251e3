"""A server on the library alone, with all that the suite expects: what the library can pass, it passes.

It is what the results of the proxy are measured against.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import mcp_types as types
from mcp.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

from tests.conformance import library_prompts as prompts
from tests.conformance import library_resources as resources
from tests.conformance.library_answers import ANSWERING, MORE
from tests.conformance.library_jobs import WORKING
from tests.conformance.library_offer import shown, text
from tests.conformance.library_questions import ASKING
from tests.conformance.library_turn import Asked, Turn

TOOLS = {**ANSWERING, **ASKING, **WORKING}
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


class Fixture:
    """The server, and what changes in it."""

    def __init__(self) -> None:
        self._more = False
        self._news = InMemorySubscriptionBus()
        self._server: Server[Any] = Server(
            "library-fixture",
            version="1.0.0",
            get_tool_input_schema=self._schema,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_list_prompts=prompts.listed,
            on_get_prompt=self._prompt,
            on_list_resources=resources.listed,
            on_list_resource_templates=resources.templates,
            on_read_resource=resources.read,
            on_subscribe_resource=resources.watch,
            on_unsubscribe_resource=resources.watch,
            on_completion=prompts.complete,
            on_subscriptions_listen=ListenHandler(self._news),
        )
        # As an argument of the constructor it would be warned about: the newer protocol has no log.
        self._server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, _set_level)
        self._server.middleware.append(
            RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="library-fixture")
        )

    def app(self) -> Any:
        """Over streamable HTTP, at `/mcp`."""
        return self._server.streamable_http_app(event_store=Events(), retry_interval=100, host="127.0.0.1")

    async def log(self, turn: Turn, line: str) -> None:
        """Write to the client's log, where it wants that."""
        wanted = not turn.modern or LOG_LEVEL in (turn.context.meta or {})
        if wanted:
            note = types.LoggingMessageNotification(
                params=types.LoggingMessageNotificationParams(level="info", data=line)
            )
            await turn.context.session.send_notification(note, related_request_id=turn.context.request_id)

    async def change(self, turn: Turn) -> None:
        """Have one tool more, or one less."""
        self._more = not self._more
        await self._news.publish(ToolsListChanged())
        if not turn.modern:
            await turn.context.session.send_tool_list_changed()

    async def change_prompts(self, turn: Turn) -> None:
        """Tell of prompts."""
        await self._news.publish(PromptsListChanged())
        if not turn.modern:
            await turn.context.session.send_prompt_list_changed()

    def _schema(self, name: str) -> Mapping[str, Any] | None:
        return TOOLS[name].listed.input_schema if name in TOOLS else None

    async def _list(self, context: Any, params: Any) -> types.ListToolsResult:
        tools = [entry.listed for entry in TOOLS.values()]
        return types.ListToolsResult(tools=[*tools, MORE] if self._more else tools)

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> Any:
        if params.name not in TOOLS:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        try:
            return await TOOLS[params.name].run(Turn(self, context, params))
        except Asked as asked:
            return asked.result
        except KeyError as error:
            return shown(text(f"{error} is missing."), failed=True)

    async def _prompt(self, context: Any, params: types.GetPromptRequestParams) -> Any:
        try:
            return await prompts.given(Turn(self, context, params), params.name)
        except Asked as asked:
            return asked.result


class Events(EventStore):
    """What was sent, so that who was cut off can have the rest."""

    def __init__(self) -> None:
        self._sent: dict[str, tuple[str, Any]] = {}

    async def store_event(self, stream_id: str, message: Any) -> str:
        event = uuid4().hex
        self._sent[event] = stream_id, message
        return event

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        if last_event_id not in self._sent:
            return None
        stream = self._sent[last_event_id][0]
        events = list(self._sent)
        for event in events[events.index(last_event_id) + 1 :]:
            of, message = self._sent[event]
            if of == stream and message is not None:
                await send_callback(EventMessage(message, event))
        return stream


async def _set_level(context: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
    return types.EmptyResult()
