"""The MCP SDK's server with a runtime behind it: it connects the handlers of this package to the protocol's methods."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server import NotificationOptions, Server
from mcp.server.caching import CacheHint
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR
from pydantic import ValidationError

from surehand.core.errors import DefinitionError
from surehand.core.quotas import QuotaLimits
from surehand.core.sanitize import replace_surrogates
from surehand.gateway.mcp.caller import TASKS_EXTENSION
from surehand.gateway.mcp.direct_calls import DirectCalls
from surehand.gateway.mcp.notifications import ChangeNotifications
from surehand.gateway.mcp.options import ServeOptions
from surehand.gateway.mcp.resources import OUTPUT_CACHE_MILLISECONDS, ResourceHandlers
from surehand.gateway.mcp.runtime_lifespan import RuntimeLifespan
from surehand.gateway.mcp.served_runtime import ServedRuntime
from surehand.gateway.mcp.tasks.subscriptions import SubscriptionHandler
from surehand.gateway.mcp.tasks.task_handlers import TaskHandlers
from surehand.gateway.mcp.tasks.wire_format import CancelTaskParams, GetTaskParams, UpdateTaskParams
from surehand.gateway.mcp.tool_calls import ToolCallHandler
from surehand.gateway.mcp.tool_list import LIST_CACHE_MILLISECONDS, ToolListHandler
from surehand.runtime.runtime import Runtime
from surehand.version import __version__

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.models import InitializationOptions

log = logging.getLogger("surehand")
MAX_SUBSCRIPTION_STREAMS = 256
"""Streams of `subscriptions/listen` of all users at the same time."""
MAX_PENDING_CALLS_PER_USER = 1_000
MAX_PENDING_BYTES_PER_USER = 64 << 20
"""Bytes of the pending calls of one user."""
_CACHE_HINTS: dict[Any, CacheHint] = {
    "server/discover": CacheHint(LIST_CACHE_MILLISECONDS, "private"),
    "tools/list": CacheHint(LIST_CACHE_MILLISECONDS, "private"),
    "resources/list": CacheHint(0, "private"),  # any call may have added an output
    "resources/templates/list": CacheHint(OUTPUT_CACHE_MILLISECONDS, "public"),
    "resources/read": CacheHint(OUTPUT_CACHE_MILLISECONDS, "private"),
}


class RuntimeServer(Server[Any]):
    """A runtime as an MCP server. A runtime that is not running is started while clients are connected."""

    def __init__(self, runtime: Runtime, options: ServeOptions) -> None:
        _limit_pending_calls(runtime)
        self.runtime = runtime
        self.notifications = ChangeNotifications(options.user)
        self.served_runtime = ServedRuntime(runtime, options)
        self.task_handlers = TaskHandlers(self.served_runtime)
        self.listen_handler = ListenHandler(self.notifications.bus, max_subscriptions=MAX_SUBSCRIPTION_STREAMS)
        self.runtime_lifespan = RuntimeLifespan(self.served_runtime, self.notifications, self.listen_handler)
        self.tool_call_handler = ToolCallHandler(self.served_runtime, self.task_handlers)
        tool_list = ToolListHandler(self.served_runtime)
        resources = ResourceHandlers(self.served_runtime)
        super().__init__(
            options.name,
            version=options.version or __version__,
            lifespan=_connection_lifespan,
            cache_hints=_CACHE_HINTS,
            get_tool_input_schema=tool_list.input_schema,
            on_list_tools=tool_list,  # type: ignore[arg-type]  # the SDK accepts a dict as well as its own model
            on_call_tool=self.tool_call_handler,  # type: ignore[arg-type]
            on_list_resources=resources.list_resources,  # type: ignore[arg-type]
            on_list_resource_templates=resources.list_templates,  # type: ignore[arg-type]
            on_read_resource=resources.read_resource,  # type: ignore[arg-type]
            on_subscriptions_listen=SubscriptionHandler(self.listen_handler, self.task_handlers),
        )
        self.extensions = {TASKS_EXTENSION: {}}
        self.add_request_handler("tasks/get", GetTaskParams, self.task_handlers.get_task)
        self.add_request_handler("tasks/update", UpdateTaskParams, self.task_handlers.update_task)
        self.add_request_handler("tasks/cancel", CancelTaskParams, self.task_handlers.cancel_task)
        # Without the SDK's own middleware for tracing: the runtime emits the spans.
        self.middleware = [self.notifications.register_listener, hide_internal_errors]
        self._direct_calls = DirectCalls(
            self.served_runtime, self.tool_call_handler, server_info=lambda: self.server_info_stamp
        )
        self._checked_middleware: list[Any] = []
        self._has_own_middleware_only = True

    @property
    def instructions(self) -> str | None:
        """The instructions of all providers for the client's model, as they are now."""
        return replace_surrogates(self.runtime.instructions()) or None

    @instructions.setter
    def instructions(self, given: str | None) -> None:
        """Ignored: the SDK's constructor sets what it was given, which is None."""

    @property
    def direct_calls(self) -> DirectCalls | None:
        """The direct path of `tools/call`; None if an application added middleware or a handler of its own."""
        if self.middleware != self._checked_middleware:  # a public list, which applications append to
            self._checked_middleware = [*self.middleware]
            self._has_own_middleware_only = all(map(_is_own_middleware, self.middleware))
        entry = self.get_request_handler("tools/call") if self._has_own_middleware_only else None
        return self._direct_calls if entry is not None and entry.handler is self.tool_call_handler else None

    async def run(
        self,
        read_stream: Any,  # the SDK has protocols for both streams, in a private module
        write_stream: Any,
        initialization_options: InitializationOptions,
        raise_exceptions: bool = False,
    ) -> None:
        """Serve one connection. The instructions are added here, for providers give them once the runtime runs."""
        async with self.runtime_lifespan:
            options = initialization_options.model_copy(update={"instructions": self.instructions})
            await super().run(read_stream, write_stream, options, raise_exceptions)

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """The server's part of the handshake."""
        options = notification_options or NotificationOptions(tools_changed=True, resources_changed=True)
        # Without `self.extensions`: tasks are an extension of the modern protocol alone.
        return super().create_initialization_options(options, experimental_capabilities, extensions or {})


def _limit_pending_calls(runtime: Runtime) -> None:
    """Limit the pending calls of each user, unless the program has set a limit: clients may leave calls unanswered."""
    limits = QuotaLimits(MAX_PENDING_CALLS_PER_USER, MAX_PENDING_CALLS_PER_USER, MAX_PENDING_BYTES_PER_USER)
    runtime.limit_pending_calls(limits)


@asynccontextmanager
async def _connection_lifespan(server: Server[Any]) -> AsyncIterator[object]:
    """Run the runtime, and forget the session at the end.

    The SDK enters it once per connection, except over HTTP, where all sessions share one lifespan.
    """
    assert isinstance(server, RuntimeServer)
    session_key = object()
    async with server.runtime_lifespan:
        try:
            yield session_key
        finally:
            server.notifications.end_session(session_key)


def server(runtime: Runtime, **options: Any) -> RuntimeServer:
    """The MCP SDK's server object for a runtime, to be used with any transport of the SDK."""
    if not isinstance(runtime, Runtime):
        raise DefinitionError(
            f"The first argument must be a Runtime, got {type(runtime).__name__}.", fix="give a Runtime."
        )
    return RuntimeServer(runtime, ServeOptions.parse(options))


async def hide_internal_errors(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """A middleware that logs unexpected exceptions, whose text the SDK would send to the client."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as error:
        log.exception("%s failed", ctx.method)
        raise MCPError(code=INTERNAL_ERROR, message="Internal server error") from error


def _is_own_middleware(middleware: Any) -> bool:
    return getattr(middleware, "__module__", type(middleware).__module__).startswith("surehand.")
