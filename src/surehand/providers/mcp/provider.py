"""An MCP server as a provider of tools, and the report of its health check.

The runtime calls `Server`; the server's tools are in `tools/server_tools.py`, its connections in `connection/`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from surehand.core.call import Call, Principal
from surehand.core.context import Context
from surehand.core.errors import DefinitionError, NotStarted, Unavailable
from surehand.core.extras import install_command
from surehand.core.facets import ToolKind
from surehand.core.protocols import ChangeNotifier, HeldBackDefinition, ProviderTraits, ServerStatus
from surehand.core.provider import Provider
from surehand.core.sanitize import clean_line
from surehand.core.tool import Tool
from surehand.providers.mcp.addresses.address import ServerAddress
from surehand.providers.mcp.connection import process_marker
from surehand.providers.mcp.connection.connection_pool import ConnectionPool
from surehand.providers.mcp.connection_owner import ANONYMOUS
from surehand.providers.mcp.options import ServerOptions
from surehand.providers.mcp.tools.server_tools import ServerTools
from surehand.providers.mcp.user_visibility import UserVisibility
from surehand.providers.trust.definition_diff import held_back_definition

if TYPE_CHECKING:
    from surehand.core.outcome import Failed, Outcome
    from surehand.providers.mcp.connection.connection import Connection
    from surehand.providers.mcp.connection.tool_call import ToolCaller
    from surehand.providers.mcp.tools.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """The result of `Server.check`."""

    ok: bool
    state: str
    protocol: str = ""
    server_name: str = ""
    server_version: str = ""
    tools: tuple[str, ...] = ()
    """The tools that models see, by their names on the wire."""
    listed_count: int = 0
    """Number of tools that the server lists, with those that are denied, held back or unusable."""
    seconds: float = 0.0
    error: str = ""
    stderr: str = ""


class Server(ChangeNotifier, Provider):
    """The tools of one MCP server. `mcp.stdio`, `mcp.http` and the other factories create it."""

    kind: ToolKind = "mcp"
    traits = ProviderTraits(retries_start=True, tracks_own_health=True, may_gain_tools=True, cancels_promptly=True)

    def __init__(self, address: ServerAddress, options: ServerOptions) -> None:
        self.address = address
        self.options = options
        self.namespace = address.namespace = options.namespace or address.namespace
        self.configured_name = self.namespace
        """Its key in the configuration file that it was read from."""
        self.required = options.required
        self.queue = options.queue
        self.on_conflict = options.on_conflict
        self.timeout = inf if options.total is None else float(options.total)
        self.cache = None if options.cache is None else float(options.cache)
        self._server_tools = ServerTools(self.namespace, address.identity, options)
        self.connections = ConnectionPool(self.namespace, address, options, self._receive_manifest)
        self._visibility = UserVisibility(self._server_tools, self.connections)
        self._relist_tasks: set[asyncio.Task[None]] = set()
        self._tool_caller: ToolCaller | None = None
        self._runtime_count = 0
        """How many runtimes have started it and not stopped it."""

    # Start and stop

    async def start(self) -> None:
        """Start the server if its tools are not in the manifest cache, or if it is required."""
        self._runtime_count += 1
        if await self._server_tools.load_cached() and not self.required:
            return
        await load_sdk()
        connection = self.connections.get_or_create(ANONYMOUS)
        connection.retries_forever = True
        await self._within_start_timeout(connection, connection.wait_started())

    async def _within_start_timeout(self, connection: Connection, work: Awaitable[object]) -> None:
        """Await something within the start timeout, counted from when the server began to start."""
        limit = None if self.options.start_timeout is None else float(self.options.start_timeout)
        remaining = None if limit is None else max(0.0, limit - connection.starting_seconds)
        try:
            async with asyncio.timeout(remaining):
                await work
        except TimeoutError:
            raise Unavailable(
                f"{self.address.label} is not up after {limit:g} s. {connection.exit_summary}".strip()
            ) from None

    async def stop(self) -> None:
        """Close every connection when the last runtime stops the provider."""
        self._runtime_count -= 1
        if self._runtime_count > 0:
            return
        for task in self._relist_tasks:
            task.cancel()
        await self.connections.close()
        if self._tool_caller is not None:
            _OPEN_CALLER_IDS.discard(self._tool_caller.id)
        self._tool_caller = None
        self._runtime_count = 0

    async def refresh(self, principal: Principal | None) -> None:
        """List the server's tools again, over this user's connection or an anonymous one.

        During a back-off this fails at once for a user.
        """
        await load_sdk()
        if principal is None:
            await self.connections.get_or_create(ANONYMOUS).relist_tools()
            return
        connection = self.connections.get_or_create(self.connections.owner_of(principal))
        if connection.state == "waiting":
            raise connection.unavailable_error()
        await self._within_start_timeout(connection, connection.relist_tools())

    def has_tools_for(self, principal: Principal) -> bool:
        """Whether the server's tools for this user are known."""
        return self._visibility.is_known_to(principal)

    def describe_cache_problems(self) -> str:
        """For which tools `cache` and `tools_cache` have no effect, and why, for people; empty if there are none."""
        return self._server_tools.cache_summary

    def describe_missing_tools(self) -> str:
        """Which tools are held back or unusable, and why."""
        return self._server_tools.missing_summary

    def trace_messages(self) -> None:
        """Log every message of connections that are opened from now on to `surehand.mcp.NAME`, at DEBUG."""
        self.connections.trace_messages()

    # Tools

    async def tools(self) -> Sequence[Tool[..., Any]]:
        """The tools of the server that are allowed and usable."""
        return self._server_tools.tools

    def find_tool(self, wire_name: str) -> Tool[..., Any] | None:
        """The tool of that wire name, if it is listed, allowed and usable."""
        tools = self._server_tools.tools
        return next((tool for tool in tools if self._server_tools.wire_name_of(tool) == wire_name), None)

    def instructions(self, principal: Principal) -> str:
        """Instructions, prompts, notice and missing tools, without those that were sent for another user only."""
        notice = self._visibility.unavailable_notice(principal)
        if not self._visibility.may_see_instructions(principal):
            return notice
        parts = (self._server_tools.instructions(), notice, self.describe_missing_tools())
        return "\n\n".join(text for text in parts if text)

    def is_hidden_from(self, principal: Principal, tool: str) -> bool:
        """Whether the server lists a tool for another user only."""
        return not self._visibility.may_see_tool(principal, tool)

    def refusal_reason(self, tool: str) -> str | None:
        """Why a tool that the server lists is not offered."""
        if tool not in self._server_tools.denied_names:
            return None
        return f"tools_allowed or tools_denied of the MCP server {self.configured_name} leave it out"

    async def _receive_manifest(self, connection: Connection, manifest: Manifest) -> None:
        """Take over what a connection listed, when it came up or after its server notified a change."""
        connection.retries_forever = False
        owner = connection.owner
        is_due = partial(self._visibility.may_replace_tools, owner)
        if is_due():
            if await self._server_tools.update(manifest, listed_for=owner, is_due=is_due, save=owner == ANONYMOUS):
                self.notify_changed()
        elif not self._server_tools.has_same_tools(manifest):
            self._relist_for_everyone()

    def _relist_for_everyone(self) -> None:
        """List tools anonymously: a user's changed list is not shown to others, but theirs may have changed too."""
        try:
            connection = self.connections.get_or_create(ANONYMOUS)
        except NotStarted:  # the pool is full; the user whose list changed does not need this one
            return
        if connection.state == "idle" and not self._relist_tasks:
            task = asyncio.get_running_loop().create_task(
                self._start_connection(connection), name=f"mcp: {self.namespace} tools"
            )
            self._relist_tasks.add(task)
            task.add_done_callback(self._relist_tasks.discard)

    async def _start_connection(self, connection: Connection) -> None:
        with suppress(Unavailable):
            await connection.wait_started()

    # Calls

    async def check_call(self, call: Call) -> None:
        """Refuse a call of a tool that is held back or gone, or whose server lacks a variable."""
        await self._find_wire_name(call)
        self.check_variables(call)

    def check_variables(self, call: Call) -> None:
        """Raise `NotStarted` if the server has yet to be started for a call, and a variable of its entry is not set."""
        connection = self.connections.find(self.connections.owner_of(call))
        if connection is not None and connection.state == "up":
            return
        try:
            self.address.check_variables()
        except DefinitionError as error:
            message = f"The MCP server {self.namespace} is not connected: {error}"
            raise NotStarted(message, data={"reason": "mcp_restart_failed", "server": self.namespace}) from error

    async def _find_wire_name(self, call: Call) -> str:
        """The server's own name of the tool. Raises if it is gone, or held back after another look at the lock file."""
        if call.tool in self._server_tools.held_back_reasons and await self._server_tools.recheck_held_back(call.tool):
            self.notify_changed()
        return self._server_tools.require_wire_name(call.tool)

    async def invoke(self, call: Call, context: Context) -> Any:
        """Send a call to the server, over the connection of its user."""
        wire_name = await self._find_wire_name(call)
        caller = self._tool_caller
        if caller is None:
            await load_sdk()
            caller = self._open_tool_caller()
        return await caller.call(call, wire_name, self.connections.owner_of(call), context)

    async def resume(self, call: Call, state: Any, answer: Any, context: Context) -> Outcome | Any:
        """Resume a call with the answer to the server's question, and report its progress to the context."""
        await load_sdk()
        owner = self.connections.owner_of(call)
        return await self._open_tool_caller().resume(call, state, answer, owner, context.report)

    def can_resume_here(self, state: Any) -> bool:
        """Whether this process can deliver the answer.

        In the modern protocol any process can. In the handshake protocol the server's request is open on one
        connection, which belongs to one process.
        """
        if not isinstance(state, Mapping) or process_marker.REQUEST_ID_KEY not in state:
            return True
        return self._tool_caller is not None and self._tool_caller.id == state[process_marker.CALLER_ID_KEY]

    def resume_failure(self, state: Any) -> Failed | None:
        """The outcome of a call whose open request is lost; None while an answer can still be delivered."""
        if not isinstance(state, Mapping) or process_marker.REQUEST_ID_KEY not in state:
            return None
        caller = self._tool_caller
        if caller is not None and caller.id == state[process_marker.CALLER_ID_KEY]:
            is_lost = caller.is_lost(state[process_marker.REQUEST_ID_KEY])
        elif process_marker.is_current_process(state[process_marker.PROCESS_KEY]):
            is_lost = state[process_marker.CALLER_ID_KEY] not in _OPEN_CALLER_IDS
        else:
            is_lost = process_marker.is_process_gone(state[process_marker.PROCESS_KEY])
        return self._server_tools.interrupted_outcome(state["tool"]) if is_lost else None

    async def cancel(self, call: Call, reason: str) -> None:
        """Forget the call's open request, and probe the server if the call timed out: the server may hang."""
        if self._tool_caller is not None:
            self._tool_caller.abandon(call)
        if reason == "timed_out":
            connection = self.connections.find(self.connections.owner_of(call))
            if connection is not None:
                connection.probe()

    def _open_tool_caller(self) -> ToolCaller:
        if self._tool_caller is None:
            # Loads the MCP SDK, which takes about a second.
            from surehand.providers.mcp.connection.tool_call import ToolCaller

            self._tool_caller = ToolCaller(self.namespace, self.connections, self._server_tools)
            _OPEN_CALLER_IDS.add(self._tool_caller.id)
        return self._tool_caller

    # Health

    async def check(self) -> ServerReport:
        """Start the server and report what it lists, or why it does not start."""
        await load_sdk()
        start = monotonic()
        connection = self.connections.get_or_create(ANONYMOUS)
        try:
            manifest = await connection.wait_started()
        except NotStarted as error:
            return ServerReport(
                ok=False, state="down", seconds=monotonic() - start, error=str(error), stderr=connection.exit_report
            )
        return ServerReport(
            ok=True,
            state=connection.state,
            protocol=manifest.protocol,
            seconds=monotonic() - start,
            tools=tuple(await self.offered_tools()),
            listed_count=len(manifest.tools),
            server_name=_clean_field(manifest.server, "name"),
            server_version=_clean_field(manifest.server, "version"),
        )

    async def server_status(self) -> ServerStatus:
        """How the anonymous connection is; a server that is not started has the manifest of its last start."""
        connection = self.connections.find(ANONYMOUS)
        manifest = None if connection is None else connection.manifest
        failure = None if connection is None else connection.failure
        return ServerStatus(
            state="idle" if connection is None else connection.state,
            address=self.address.label,
            protocol="" if manifest is None else manifest.protocol,
            server_name="" if manifest is None else _clean_field(manifest.server, "name"),
            server_version="" if manifest is None else _clean_field(manifest.server, "version"),
            error="" if failure is None else failure.message,
        )

    def is_signed_in(self, user: str | None) -> bool | None:
        """Whether a user has signed in; None if the server asks nobody to."""
        return self.address.is_signed_in(self._owner_of_user(user))

    async def sign_in(self, user: str | None, show_url: Callable[[str], Awaitable[None]]) -> None:
        """Sign a user in."""
        await load_sdk()
        await self.address.sign_in(self._owner_of_user(user), show_url)

    def _owner_of_user(self, user: str | None) -> str | None:
        """The user whose tokens the calls of a user carry: none where all share one connection."""
        return self.connections.owner_of(Principal(user=user)).user

    async def held_back_definitions(self) -> Sequence[HeldBackDefinition]:
        """The definitions that have changed since they were pinned, each with its diff."""
        return [held_back_definition(change) for change in await self._server_tools.read_held_back()]

    async def accept_definition(self, tool: str | None, sha256: str) -> None:
        """Accept a definition that a person has reviewed."""
        if await self._server_tools.accept(tool, sha256):
            self.notify_changed()

    async def offered_tools(self) -> list[str]:
        """Wire names of the tools that models see; from the last manifest if the server is not up."""
        await self._server_tools.load_cached()
        return [self._server_tools.wire_name_of(tool) for tool in self._server_tools.tools if tool.presentation.listed]

    def __repr__(self) -> str:
        return f"<MCP server {self.namespace}: {self.address.label}>"


async def load_sdk() -> None:
    """Import the MCP SDK in a thread: the import takes about a second, and must not block the event loop."""
    if _SDK_MODULE in sys.modules:
        return
    try:
        await asyncio.to_thread(import_module, _SDK_MODULE)
    except ImportError as error:
        raise NotStarted(f"MCP servers need the package mcp ({error}): {install_command('mcp')}.") from error


_SDK_MODULE = f"{__package__}.connection.tool_call"
_OPEN_CALLER_IDS: set[str] = set()
"""Ids of the open `ToolCaller`s of this process: only they can answer a request that a server holds open."""


def _clean_field(server: Mapping[str, Any], key: str) -> str:
    return clean_line(server.get(key))
