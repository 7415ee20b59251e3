"""Server: the library's server with a runtime behind it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from mcp.server import NotificationOptions, Server
from mcp.server.caching import CacheHint
from mcp.server.subscriptions import ListenHandler

from surehand.core.errors import DefinitionError
from surehand.core.quotas import Quota, QuotaLimits
from surehand.core.sanitize import replace_surrogates
from surehand.gateway.mcp.caller import TASKS
from surehand.gateway.mcp.calls import Calls
from surehand.gateway.mcp.contained import contained
from surehand.gateway.mcp.direct_call import DirectCalls
from surehand.gateway.mcp.life import Life
from surehand.gateway.mcp.news import News
from surehand.gateway.mcp.options import Options
from surehand.gateway.mcp.outputs import FOR_GOOD, Outputs
from surehand.gateway.mcp.served import Served
from surehand.gateway.mcp.tasks.listening import Listening
from surehand.gateway.mcp.tasks.params import CancelTask, GetTask, UpdateTask
from surehand.gateway.mcp.tasks.tasks import Tasks
from surehand.gateway.mcp.tools import FRESH, Tools
from surehand.runtime.runtime import Runtime

if TYPE_CHECKING:
    from mcp.server.models import InitializationOptions

MOST_LISTENERS = 256
MOST_WAITS, WAITING_BYTES = 1_000, 64 << 20
"""Calls of one user that wait for somebody, and bytes that are kept of them."""
_HINTS: dict[Any, CacheHint] = {
    "server/discover": CacheHint(FRESH, "private"),
    "tools/list": CacheHint(FRESH, "private"),
    "resources/list": CacheHint(0, "private"),  # it is looked at after a call, which may have added to it
    "resources/templates/list": CacheHint(FOR_GOOD, "public"),
    "resources/read": CacheHint(FOR_GOOD, "private"),
}


class RuntimeServer(Server[Any]):
    """A runtime as an MCP server. It is given a running runtime, or starts it as long as it is served."""

    def __init__(self, runtime: Runtime, options: Options) -> None:
        self.runtime, self.news = runtime, News(options.user)
        self.served = Served(runtime, options)
        _bound(runtime)
        self.tasks, tools, outputs = Tasks(self.served), Tools(self.served), Outputs(self.served)
        self.listening = ListenHandler(self.news.bus, max_subscriptions=MOST_LISTENERS)
        self.life = Life(self.served, self.news, self.listening)
        self.calls = Calls(self.served, self.tasks)
        super().__init__(
            options.name,
            version=options.version or _our_version(),
            lifespan=_lifespan,
            cache_hints=_HINTS,
            get_tool_input_schema=tools.schema,
            on_list_tools=tools,  # type: ignore[arg-type]  # a dict is as good as the model that it would be made of
            on_call_tool=self.calls,  # type: ignore[arg-type]
            on_list_resources=outputs.list,  # type: ignore[arg-type]
            on_list_resource_templates=outputs.templates,  # type: ignore[arg-type]
            on_read_resource=outputs.read,  # type: ignore[arg-type]
            on_subscriptions_listen=Listening(self.listening, self.tasks),
        )
        self.extensions = {TASKS: {}}
        self.add_request_handler("tasks/get", GetTask, self.tasks.get)
        self.add_request_handler("tasks/update", UpdateTask, self.tasks.update)
        self.add_request_handler("tasks/cancel", CancelTask, self.tasks.cancel)
        self.middleware = [self.news.meet, contained]  # spans are the runtime's own
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
            self._has_own_middleware_only = all(map(_is_ours, self.middleware))
        entry = self.get_request_handler("tools/call") if self._has_own_middleware_only else None
        return self._direct_calls if entry is not None and entry.handler is self.calls else None

    async def run(
        self,
        read_stream: Any,  # the SDK has protocols for both streams, in a private module
        write_stream: Any,
        initialization_options: InitializationOptions,
        raise_exceptions: bool = False,
    ) -> None:
        """Serve one connection. What its client is told was written before the runtime had to run."""
        async with self.life:
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


def _bound(runtime: Runtime) -> None:
    """Whoever reaches this server can have calls wait for ever; so many are enough."""
    waits = runtime.parts.waits
    if waits.quota is None:
        waits.quota = Quota(QuotaLimits(MOST_WAITS, MOST_WAITS, WAITING_BYTES))


def _our_version() -> str:
    # Not by import: the root package knows the names of all layers, and this one is not to know its neighbours.
    return str(sys.modules["surehand"].__version__)


@asynccontextmanager
async def _lifespan(server: Server[Any]) -> AsyncIterator[object]:
    """Entered once per connection, except over HTTP, where all sessions share one lifespan."""
    assert isinstance(server, RuntimeServer)
    session_key = object()
    async with server.life:
        try:
            yield session_key
        finally:
            server.news.end_session(session_key)


def server(runtime: Runtime, **options: Any) -> RuntimeServer:
    """The library's server object for a runtime, for those who bring their own transport."""
    if not isinstance(runtime, Runtime):
        raise DefinitionError(f"{type(runtime).__name__} cannot be served.", fix="give a Runtime.")
    return RuntimeServer(runtime, Options.of(options))


def _is_ours(middleware: Any) -> bool:
    return getattr(middleware, "__module__", type(middleware).__module__).startswith("surehand.")
