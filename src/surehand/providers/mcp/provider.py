"""Server: an MCP server as a provider of tools."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from surehand.core.call import Call, Principal
from surehand.core.context import Context
from surehand.core.errors import NotStarted, Unavailable
from surehand.core.facets import ToolKind
from surehand.core.provider import Provider
from surehand.core.sanitize import clean_line
from surehand.core.tool import Tool
from surehand.providers.mcp.addresses.address import ANONYMOUS, ServerAddress
from surehand.providers.mcp.connection import process_marker
from surehand.providers.mcp.connection.connection_pool import ConnectionPool
from surehand.providers.mcp.options import ServerOptions
from surehand.providers.mcp.tools.server_tools import ServerTools
from surehand.providers.mcp.user_visibility import UserVisibility

if TYPE_CHECKING:
    from surehand.core.outcome import Failed, Outcome
    from surehand.providers.mcp.connection.connection import Connection
    from surehand.providers.mcp.connection.tool_call import ReportProgress, ToolCaller
    from surehand.providers.mcp.tools.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """What was found when a server was looked at."""

    ok: bool
    state: str
    protocol: str = ""
    server_name: str = ""
    server_version: str = ""
    tools: tuple[str, ...] = ()
    """Those that models are told of, by the server's names for them."""
    listed_count: int = 0
    """How many the server lists: some may be denied, held back, or of no use here."""
    seconds: float = 0.0
    error: str = ""
    stderr: str = ""


class Server(Provider):
    """Every tool of an MCP server. Made by `mcp.stdio`, `mcp.http` and their like."""

    kind: ToolKind = "mcp"
    on_conflict = "rename"
    retries_start = True
    tracks_own_health = True
    is_per_user = True
    cancels_promptly = True

    def __init__(self, address: ServerAddress, options: ServerOptions) -> None:
        self.address, self.options = address, options
        self.namespace = address.namespace = options.namespace or address.namespace
        self.configured_name = self.namespace
        """What it is called in the file that it was read from."""
        self.required, self.queue = options.required, options.queue
        self.timeout = inf if options.total is None else float(options.total)
        self.cache = None if options.cache is None else float(options.cache)
        self._server_tools = ServerTools(self.namespace, address.identity, options)
        self.connections = ConnectionPool(self.namespace, address, options, self._receive_manifest)
        self._visibility = UserVisibility(self._server_tools, self.connections)
        self._relist_tasks: set[asyncio.Task[None]] = set()
        self._tool_caller: ToolCaller | None = None
        self._runtime_count = 0
        """Runtimes that have started it."""

    # The life of the provider

    async def start(self) -> None:
        """Nothing is started where it is known what the server offers, unless nothing goes without it."""
        self._runtime_count += 1
        if await self._server_tools.load_cached() and not self.required:
            return
        await load_sdk()
        starting = self.connections.get_or_create(ANONYMOUS)
        starting.retries_forever = True
        await self._within_start_timeout(starting, starting.wait_started())

    async def _within_start_timeout(self, connection: Connection, work: Awaitable[object]) -> None:
        """The time that the server has been starting for by now counts."""
        limit = None if self.options.start_timeout is None else float(self.options.start_timeout)
        try:
            async with asyncio.timeout(None if limit is None else max(0.0, limit - connection.starting_seconds)):
                await work
        except TimeoutError:
            raise Unavailable(
                f"{self.address.label} is not up after {limit:g} s. {connection.exit_summary}".strip()
            ) from None

    async def stop(self) -> None:
        """Leave every connection, once no runtime uses it any more."""
        self._runtime_count -= 1
        if self._runtime_count > 0:
            return
        for task in self._relist_tasks:
            task.cancel()
        await self.connections.close()
        if self._tool_caller is not None:
            _OPEN_CALLER_IDS.discard(self._tool_caller.id)
        self._tool_caller, self._runtime_count = None, 0

    async def refresh(self) -> None:
        """Ask the server what it offers now."""
        await load_sdk()
        await self.connections.get_or_create(ANONYMOUS).relist_tools()

    async def refresh_for(self, principal: Principal) -> None:
        """Ask the server what it offers now, in somebody's name; one that is left alone for a while is not asked."""
        await load_sdk()
        connection = self.connections.get_or_create(self.connections.owner_of(principal))
        if connection.state == "waiting":
            raise connection.unavailable_error()
        await self._within_start_timeout(connection, connection.relist_tools())

    async def load_tools_for(self, principal: Principal) -> bool:
        """Ask in somebody's name what is offered to them, unless that is known; whether anything was asked."""
        if self._visibility.is_known_to(principal):
            return False
        await self.refresh_for(principal)
        return True

    def describe_missing_tools(self) -> str:
        """Why tools of it are not there."""
        return self._server_tools.missing_summary

    # Tools

    async def tools(self) -> Sequence[Tool[..., Any]]:
        """What it offers, as far as that is allowed and can be used."""
        return self._server_tools.tools

    def instructions(self) -> str:
        """The server's own words, its prompts, and which tools are held back."""
        return self._server_tools.instructions()

    def instructions_for(self, principal: Principal) -> str:
        """The same, as far as it is not another user's alone, and whether the server is known to be down."""
        words, missing = (
            (self.instructions(), self.describe_missing_tools())
            if self._visibility.may_see_instructions(principal)
            else ("", "")
        )
        return "\n\n".join(text for text in (words, self._visibility.unavailable_notice(principal), missing) if text)

    def is_hidden_from(self, principal: Principal, tool: str) -> bool:
        """Whether a tool is another user's alone."""
        return not self._visibility.may_see_tool(principal, tool)

    def refusal_reason(self, tool: str) -> str | None:
        """Why a tool that the server lists is not offered."""
        if tool not in self._server_tools.denied_names:
            return None
        return f"tools_allowed or tools_denied of the MCP server {self.configured_name} leave it out"

    async def _receive_manifest(self, connection: Connection, manifest: Manifest) -> None:
        """A connection came up, or its server said that its tools changed."""
        connection.retries_forever, who = False, connection.owner
        due = partial(self._visibility.may_replace_tools, who)
        if due():
            if await self._server_tools.update(manifest, listed_for=who, is_due=due, save=who == ANONYMOUS):
                self.notify_changed()
        elif not self._server_tools.has_same_tools(manifest):
            self._relist_for_everyone()

    def _relist_for_everyone(self) -> None:
        """What one user is offered is no other's to see; but it tells that something may have changed for all."""
        try:
            lister = self.connections.get_or_create(ANONYMOUS)
        except NotStarted:  # there is no room; whoever was told this needs none of it
            return
        if lister.state == "idle" and not self._relist_tasks:
            task = asyncio.get_running_loop().create_task(
                self._start_connection(lister), name=f"mcp: {self.namespace} tools"
            )
            self._relist_tasks.add(task)
            task.add_done_callback(self._relist_tasks.discard)

    async def _start_connection(self, connection: Connection) -> None:
        with suppress(Unavailable):
            await connection.wait_started()

    # Calls

    async def invoke(self, call: Call, context: Context) -> Any:
        """Have the server do the work."""
        if call.tool in self._server_tools.held_back_reasons and await self._server_tools.recheck_held_back(call.tool):
            self.notify_changed()
        wire = self._server_tools.require_wire_name(call.tool)
        if (talk := self._tool_caller) is None:
            await load_sdk()
            talk = self._open_tool_caller()
        return await talk.call(call, wire, self.connections.owner_of(call), context)

    async def resume(self, call: Call, state: Any, answer: Any) -> Outcome | Any:
        """Go on with what the server asked for."""
        return await self._resume_call(call, state, answer)

    async def resume_with_context(self, call: Call, state: Any, answer: Any, context: Context) -> Outcome | Any:
        """The same, and tell of its progress."""
        return await self._resume_call(call, state, answer, context.report)

    async def _resume_call(
        self, call: Call, state: Any, answer: Any, report: ReportProgress | None = None
    ) -> Outcome | Any:
        await load_sdk()
        return await self._open_tool_caller().resume(call, state, answer, self.connections.owner_of(call), report)

    def can_resume_here(self, state: Any) -> bool:
        """Whether the server waits for this answer here; in the newer protocol anybody may bring it."""
        if not isinstance(state, Mapping) or "request" not in state:
            return True
        return self._tool_caller is not None and self._tool_caller.id == state["talk"]

    def resume_failure(self, state: Any) -> Failed | None:
        """A server of the older protocol waits for its answer only as long as it, and this program, live."""
        if not isinstance(state, Mapping) or "request" not in state:
            return None
        asked_here = process_marker.is_current_process(state["process"])
        gone = state["talk"] not in _OPEN_CALLER_IDS if asked_here else process_marker.is_process_gone(state["process"])
        if self._tool_caller is not None and self._tool_caller.id == state["talk"]:
            gone = self._tool_caller.is_lost(state["request"])
        return self._server_tools.interrupted_outcome(state["tool"]) if gone else None

    async def cancel(self, call: Call, reason: str) -> None:
        """The server was told already, if it could be. One that lets calls run out of time may be stuck."""
        if self._tool_caller is not None:
            self._tool_caller.abandon(call)
        if reason == "timed_out" and (connection := self.connections.find(self.connections.owner_of(call))) is not None:
            connection.probe()

    def _open_tool_caller(self) -> ToolCaller:
        if self._tool_caller is None:
            from surehand.providers.mcp.connection.tool_call import (
                ToolCaller,  # loads the library, which takes a second
            )

            self._tool_caller = ToolCaller(self.namespace, self.connections, self._server_tools)
            _OPEN_CALLER_IDS.add(self._tool_caller.id)
        return self._tool_caller

    # Looking at it

    async def check(self) -> ServerReport:
        """Start the server, and tell how that went."""
        await load_sdk()
        began, connection = monotonic(), self.connections.get_or_create(ANONYMOUS)
        try:
            manifest = await connection.wait_started()
        except NotStarted as error:
            took = monotonic() - began
            return ServerReport(ok=False, state="down", seconds=took, error=str(error), stderr=connection.exit_report)
        return ServerReport(
            ok=True, state=connection.state, protocol=manifest.protocol, seconds=monotonic() - began,
            tools=tuple(await self.offered_tools()), listed_count=len(manifest.tools),
            server_name=_clean_field(manifest.server, "name"), server_version=_clean_field(manifest.server, "version"),
        )  # fmt: skip

    async def offered_tools(self) -> list[str]:
        """The tools that models are told of, by the server's names for them; as it last said, if it is not up."""
        await self._server_tools.load_cached()
        return [self._server_tools.wire_name_of(tool) for tool in self._server_tools.tools if tool.presentation.listed]

    def __repr__(self) -> str:
        return f"<MCP server {self.namespace}: {self.address.label}>"


async def load_sdk() -> None:
    """Load the library beside the event loop: that takes a second, in which others should not stand still."""
    if _SDK_MODULE in sys.modules:
        return
    try:
        await asyncio.to_thread(import_module, _SDK_MODULE)
    except ImportError as error:
        raise NotStarted(f"MCP servers need the package mcp ({error}): pip install 'surehand[mcp]'.") from error


_SDK_MODULE = f"{__package__}.connection.tool_call"
_OPEN_CALLER_IDS: set[str] = set()
"""Those of this process that are going on: only they can bring answers to servers that wait."""


def _clean_field(server: Mapping[str, Any], key: str) -> str:
    return clean_line(server.get(key))
