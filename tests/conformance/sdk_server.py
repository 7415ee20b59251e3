"""A server that uses the MCP SDK alone and has everything that the suite tests.

It passes every scenario, and it is the server behind the proxy.
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

from tests.conformance import sdk_prompts as prompts
from tests.conformance import sdk_resources as resources
from tests.conformance.sdk_input_tools import INPUT_TOOLS
from tests.conformance.sdk_request import InputRequired, SdkRequest
from tests.conformance.sdk_simple_tools import EXTRA_TOOL, SIMPLE_TOOLS
from tests.conformance.sdk_task_tools import TASK_TOOLS
from tests.conformance.sdk_tool_registry import text_block, tool_result

TOOLS = {**SIMPLE_TOOLS, **INPUT_TOOLS, **TASK_TOOLS}
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


class SdkServer:
    """The server, and its list of tools, which changes during some scenarios."""

    def __init__(self) -> None:
        self._has_extra_tool = False
        self._subscriptions = InMemorySubscriptionBus()
        self._server: Server[Any] = Server(
            "sdk-fixture",
            version="1.0.0",
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=prompts.list_prompts,
            on_get_prompt=self._get_prompt,
            on_list_resources=resources.list_resources,
            on_list_resource_templates=resources.list_templates,
            on_read_resource=resources.read_resource,
            on_subscribe_resource=resources.accept_subscription,
            on_unsubscribe_resource=resources.accept_subscription,
            on_completion=prompts.complete,
            on_subscriptions_listen=ListenHandler(self._subscriptions),
        )
        # The constructor would warn about it, because the modern protocol has removed it.
        self._server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, _set_level)
        self._server.middleware.append(
            RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="sdk-fixture")
        )

    def app(self) -> Any:
        """The ASGI app, with MCP at `/mcp`."""
        return self._server.streamable_http_app(event_store=InMemoryEventStore(), retry_interval=100, host="127.0.0.1")

    async def log(self, request: SdkRequest, line: str) -> None:
        """Send a log message if the client wants it."""
        wants_log = not request.is_modern or LOG_LEVEL in (request.context.meta or {})
        if wants_log:
            notification = types.LoggingMessageNotification(
                params=types.LoggingMessageNotificationParams(level="info", data=line)
            )
            await request.context.session.send_notification(notification, related_request_id=request.context.request_id)

    async def change_tools(self, request: SdkRequest) -> None:
        """Add or remove the extra tool, and notify the client."""
        self._has_extra_tool = not self._has_extra_tool
        await self._subscriptions.publish(ToolsListChanged())
        if not request.is_modern:
            await request.context.session.send_tool_list_changed()

    async def change_prompts(self, request: SdkRequest) -> None:
        """Notify the client that the prompts have changed."""
        await self._subscriptions.publish(PromptsListChanged())
        if not request.is_modern:
            await request.context.session.send_prompt_list_changed()

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        return TOOLS[name].definition.input_schema if name in TOOLS else None

    async def _list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        tools = [entry.definition for entry in TOOLS.values()]
        return types.ListToolsResult(tools=[*tools, EXTRA_TOOL] if self._has_extra_tool else tools)

    async def _call_tool(self, context: Any, params: types.CallToolRequestParams) -> Any:
        if params.name not in TOOLS:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        try:
            return await TOOLS[params.name].run(SdkRequest(self, context, params))
        except InputRequired as required:
            return required.result
        except KeyError as error:
            return tool_result(text_block(f"{error} is missing."), failed=True)

    async def _get_prompt(self, context: Any, params: types.GetPromptRequestParams) -> Any:
        try:
            return await prompts.get_prompt(SdkRequest(self, context, params), params.name)
        except InputRequired as required:
            return required.result


class InMemoryEventStore(EventStore):
    """Stores sent events, so that a client can resume a broken stream."""

    def __init__(self) -> None:
        self._events: dict[str, tuple[str, Any]] = {}

    async def store_event(self, stream_id: str, message: Any) -> str:
        event = uuid4().hex
        self._events[event] = stream_id, message
        return event

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        if last_event_id not in self._events:
            return None
        stream = self._events[last_event_id][0]
        events = list(self._events)
        for event in events[events.index(last_event_id) + 1 :]:
            event_stream, message = self._events[event]
            if event_stream == stream and message is not None:
                await send_callback(EventMessage(message, event))
        return stream


async def _set_level(context: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
    return types.EmptyResult()
