"""Server: the library's server with a runtime behind it."""

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
from surehand.core.quotas import Quota, QuotaLimits
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


async def hide_internal_errors(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """A middleware: a plain internal error where the library would send the text of any exception."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as error:
        log.exception("%s failed", ctx.method)
        raise MCPError(code=INTERNAL_ERROR, message="Internal server error") from error


MAX_SUBSCRIPTION_STREAMS = 256
MAX_PENDING_CALLS_PER_USER, MAX_PENDING_BYTES_PER_USER = 1_000, 64 << 20
"""Calls of one user that wait for somebody, and bytes that are kept of them."""
_CACHE_HINTS: dict[Any, CacheHint] = {
    "server/discover": CacheHint(LIST_CACHE_MILLISECONDS, "private"),
    "tools/list": CacheHint(LIST_CACHE_MILLISECONDS, "private"),
    "resources/list": CacheHint(0, "private"),  # it is looked at after a call, which may have added to it
    "resources/templates/list": CacheHint(OUTPUT_CACHE_MILLISECONDS, "public"),
    "resources/read": CacheHint(OUTPUT_CACHE_MILLISECONDS, "private"),
}


class RuntimeServer(Server[Any]):
    """A runtime as an MCP server. It is given a running runtime, or starts it as long as it is served."""

    def __init__(self, runtime: Runtime, options: ServeOptions) -> None:
        self.runtime, self.notifications = runtime, ChangeNotifications(options.user)
        self.served_runtime = ServedRuntime(runtime, options)
        _limit_pending_calls(runtime)
        self.task_handlers, tools, outputs = (
            TaskHandlers(self.served_runtime),
            ToolListHandler(self.served_runtime),
            ResourceHandlers(self.served_runtime),
        )
        self.listen_handler = ListenHandler(self.notifications.bus, max_subscriptions=MAX_SUBSCRIPTION_STREAMS)
        self.runtime_lifespan = RuntimeLifespan(self.served_runtime, self.notifications, self.listen_handler)
        self.tool_call_handler = ToolCallHandler(self.served_runtime, self.task_handlers)
        super().__init__(
            options.name,
            version=options.version or __version__,
            lifespan=_connection_lifespan,
            cache_hints=_CACHE_HINTS,
            get_tool_input_schema=tools.input_schema,
            on_list_tools=tools,  # type: ignore[arg-type]  # a dict is as good as the model that it would be made of
            on_call_tool=self.tool_call_handler,  # type: ignore[arg-type]
            on_list_resources=outputs.list_resources,  # type: ignore[arg-type]
            on_list_resource_templates=outputs.list_templates,  # type: ignore[arg-type]
            on_read_resource=outputs.read_resource,  # type: ignore[arg-type]
            on_subscriptions_listen=SubscriptionHandler(self.listen_handler, self.task_handlers),
        )
        self.extensions = {TASKS_EXTENSION: {}}
        self.add_request_handler("tasks/get", GetTaskParams, self.task_handlers.get_task)
        self.add_request_handler("tasks/update", UpdateTaskParams, self.task_handlers.update_task)
        self.add_request_handler("tasks/cancel", CancelTaskParams, self.task_handlers.cancel_task)
        self.middleware = [self.notifications.register_listener, hide_internal_errors]  # spans are the runtime's own
        self._direct_calls = DirectCalls(self)
        self._checked_middleware: list[Any] = []
        self._has_own_middleware_only = True

    @property
    def instructions(self) -> str | None:
        """What all providers want a model to know, as it is now."""
        return replace_surrogates(self.runtime.instructions()) or None

    @instructions.setter
    def instructions(self, given: str | None) -> None:
        """The library sets what it was given, which is nothing."""

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
        """Serve one connection. What its client is told was written before the runtime had to run."""
        async with self.runtime_lifespan:
            told = initialization_options.model_copy(update={"instructions": self.instructions})
            await super().run(read_stream, write_stream, told, raise_exceptions)

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """What clients of the older protocol are told."""
        told = notification_options or NotificationOptions(tools_changed=True, resources_changed=True)
        # Tasks are an extension of the newer protocol alone.
        return super().create_initialization_options(told, experimental_capabilities, extensions or {})


def _limit_pending_calls(runtime: Runtime) -> None:
    """Whoever reaches this server can have calls wait for ever; so many are enough."""
    waits = runtime.services.pending_calls
    if waits.user_quota is None:
        waits.user_quota = Quota(
            QuotaLimits(MAX_PENDING_CALLS_PER_USER, MAX_PENDING_CALLS_PER_USER, MAX_PENDING_BYTES_PER_USER)
        )


@asynccontextmanager
async def _connection_lifespan(server: Server[Any]) -> AsyncIterator[object]:
    """Entered once per connection, except over HTTP, where all sessions share one lifespan."""
    assert isinstance(server, RuntimeServer)
    session_key = object()
    async with server.runtime_lifespan:
        try:
            yield session_key
        finally:
            server.notifications.end_session(session_key)


def server(runtime: Runtime, **options: Any) -> RuntimeServer:
    """The library's server object for a runtime, for those who bring their own transport."""
    if not isinstance(runtime, Runtime):
        raise DefinitionError(f"{type(runtime).__name__} cannot be served.", fix="give a Runtime.")
    return RuntimeServer(runtime, ServeOptions.parse(options))


def _is_own_middleware(middleware: Any) -> bool:
    return getattr(middleware, "__module__", type(middleware).__module__).startswith("surehand.")
