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
from surehand.core.facets import Kind
from surehand.core.provider import Provider
from surehand.core.sanitize import clean_line
from surehand.core.tool import Tool
from surehand.providers.mcp import process
from surehand.providers.mcp.addresses.address import EVERYONE, ServerAddress
from surehand.providers.mcp.offer import Offer
from surehand.providers.mcp.options import Options
from surehand.providers.mcp.sessions import Sessions
from surehand.providers.mcp.sharing import Sharing

if TYPE_CHECKING:
    from surehand.core.outcome import Failed, Outcome
    from surehand.providers.mcp.connection import Connection
    from surehand.providers.mcp.manifest import Manifest
    from surehand.providers.mcp.talk import Reports, Talk


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found when a server was looked at."""

    ok: bool
    state: str
    protocol: str = ""
    server_name: str = ""
    server_version: str = ""
    tools: tuple[str, ...] = ()
    """Those that models are told of, by the server's names for them."""
    listed: int = 0
    """How many the server lists: some may be denied, held back, or of no use here."""
    seconds: float = 0.0
    error: str = ""
    stderr: str = ""


class Server(Provider):
    """Every tool of an MCP server. Made by `mcp.stdio`, `mcp.http` and their like."""

    kind: Kind = "mcp"
    on_conflict = "rename"
    comes_back = True
    keeps_health = True
    knows_users = True
    lets_go = True

    def __init__(self, route: ServerAddress, options: Options) -> None:
        self.route, self.options = route, options
        self.namespace = route.namespace = options.namespace or route.namespace
        self.written_as = self.namespace
        """What it is called in the file that it was read from."""
        self.required, self.queue = options.required, options.queue
        self.timeout = inf if options.total is None else float(options.total)
        self.cache = None if options.cache is None else float(options.cache)
        self._offer = Offer(self.namespace, route.identity, options)
        self.sessions = Sessions(self.namespace, route, options, self._heard)
        self._sharing = Sharing(self._offer, self.sessions)
        self._asking: set[asyncio.Task[None]] = set()
        self._talk: Talk | None = None
        self._users = 0
        """Runtimes that have started it."""

    # The life of the provider

    async def start(self) -> None:
        """Nothing is started where it is known what the server offers, unless nothing goes without it."""
        self._users += 1
        if await self._offer.load() and not self.required:
            return
        await loaded()
        starting = self.sessions.of(EVERYONE)
        starting.persistent = True
        await self._in_time(starting, starting.started())

    async def _in_time(self, connection: Connection, coming: Awaitable[object]) -> None:
        """The time that the server has been starting for by now counts."""
        limit = None if self.options.start_timeout is None else float(self.options.start_timeout)
        try:
            async with asyncio.timeout(None if limit is None else max(0.0, limit - connection.starting_for)):
                await coming
        except TimeoutError:
            raise Unavailable(f"{self.route.label} is not up after {limit:g} s. {connection.gist}".strip()) from None

    async def stop(self) -> None:
        """Leave every connection, once no runtime uses it any more."""
        self._users -= 1
        if self._users > 0:
            return
        for task in self._asking:
            task.cancel()
        await self.sessions.close()
        if self._talk is not None:
            _TALKS.discard(self._talk.id)
        self._talk, self._users = None, 0

    async def refresh(self) -> None:
        """Ask the server what it offers now."""
        await loaded()
        await self.sessions.of(EVERYONE).relist()

    async def refresh_for(self, who: Principal) -> None:
        """Ask the server what it offers now, in somebody's name; one that is left alone for a while is not asked."""
        await loaded()
        connection = self.sessions.of(self.sessions.who(who))
        if connection.state == "waiting":
            raise connection.unavailable()
        await self._in_time(connection, connection.relist())

    async def meet(self, who: Principal) -> bool:
        """Ask in somebody's name what is offered to them, unless that is known; whether anything was asked."""
        if self._sharing.is_known_to(who):
            return False
        await self.refresh_for(who)
        return True

    def missing(self) -> str:
        """Why tools of it are not there."""
        return self._offer.missing

    # Tools

    async def tools(self) -> Sequence[Tool[..., Any]]:
        """What it offers, as far as that is allowed and can be used."""
        return self._offer.tools

    def instructions(self) -> str:
        """The server's own words, its prompts, and which tools are held back."""
        return self._offer.instructions()

    def told_to(self, who: Principal) -> str:
        """The same, as far as it is not another user's alone, and whether the server is known to be down."""
        words, missing = (self.instructions(), self.missing()) if self._sharing.may_hear(who) else ("", "")
        return "\n\n".join(text for text in (words, self._sharing.trouble(who), missing) if text)

    def hides_from(self, who: Principal, tool: str) -> bool:
        """Whether a tool is another user's alone."""
        return not self._sharing.may_see(who, tool)

    async def _heard(self, connection: Connection, manifest: Manifest) -> None:
        """A connection came up, or its server said that its tools changed."""
        connection.persistent, who = False, connection.who
        due = partial(self._sharing.may_set, who)
        if due():
            if await self._offer.take(manifest, source=who, due=due, keep=who == EVERYONE):
                self.changed()
        elif not self._offer.says(manifest):
            self._ask_again()

    def _ask_again(self) -> None:
        """What one user is offered is no other's to see; but it tells that something may have changed for all."""
        try:
            lister = self.sessions.of(EVERYONE)
        except NotStarted:  # there is no room; whoever was told this needs none of it
            return
        if lister.state == "idle" and not self._asking:
            task = asyncio.get_running_loop().create_task(self._listed(lister), name=f"mcp: {self.namespace} tools")
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _listed(self, lister: Connection) -> None:
        with suppress(Unavailable):
            await lister.started()

    # Calls

    async def invoke(self, call: Call, context: Context) -> Any:
        """Have the server do the work."""
        if call.tool in self._offer.changed and await self._offer.look_again(call.tool):
            self.changed()
        wire = self._offer.wire_name(call.tool)
        if (talk := self._talk) is None:
            await loaded()
            talk = self._talking()
        return await talk.call(call, wire, self.sessions.who(call), context)

    async def resume(self, call: Call, state: Any, answer: Any) -> Outcome | Any:
        """Go on with what the server asked for."""
        return await self._resumed(call, state, answer)

    async def go_on(self, call: Call, state: Any, answer: Any, context: Context) -> Outcome | Any:
        """The same, and tell of its progress."""
        return await self._resumed(call, state, answer, context.report)

    async def _resumed(self, call: Call, state: Any, answer: Any, report: Reports | None = None) -> Outcome | Any:
        await loaded()
        return await self._talking().resume(call, state, answer, self.sessions.who(call), report)

    def holds(self, state: Any) -> bool:
        """Whether the server waits for this answer here; in the newer protocol anybody may bring it."""
        if not isinstance(state, Mapping) or "request" not in state:
            return True
        return self._talk is not None and self._talk.id == state["talk"]

    def lost(self, state: Any) -> Failed | None:
        """A server of the older protocol waits for its answer only as long as it, and this program, live."""
        if not isinstance(state, Mapping) or "request" not in state:
            return None
        asked_here = process.is_here(state["process"])
        gone = state["talk"] not in _TALKS if asked_here else process.is_gone(state["process"])
        if self._talk is not None and self._talk.id == state["talk"]:
            gone = self._talk.is_lost(state["request"])
        return self._offer.interrupted(state["tool"]) if gone else None

    async def cancel(self, call: Call, reason: str) -> None:
        """The server was told already, if it could be. One that lets calls run out of time may be stuck."""
        if self._talk is not None:
            self._talk.forget(call)
        if reason == "timed_out" and (connection := self.sessions.found(self.sessions.who(call))) is not None:
            connection.suspect()

    def _talking(self) -> Talk:
        if self._talk is None:
            from surehand.providers.mcp.talk import Talk  # loads the library, which takes a second

            self._talk = Talk(self.namespace, self.sessions, self._offer)
            _TALKS.add(self._talk.id)
        return self._talk

    # Looking at it

    async def check(self) -> Report:
        """Start the server, and tell how that went."""
        await loaded()
        began, connection = monotonic(), self.sessions.of(EVERYONE)
        try:
            manifest = await connection.started()
        except NotStarted as error:
            took = monotonic() - began
            return Report(ok=False, state="down", seconds=took, error=str(error), stderr=connection.story)
        return Report(
            ok=True, state=connection.state, protocol=manifest.protocol, seconds=monotonic() - began,
            tools=tuple(await self.offered()), listed=len(manifest.tools),
            server_name=_text(manifest.server, "name"), server_version=_text(manifest.server, "version"),
        )  # fmt: skip

    async def offered(self) -> list[str]:
        """The tools that models are told of, by the server's names for them; as it last said, if it is not up."""
        await self._offer.load()
        return [self._offer.named(tool) for tool in self._offer.tools if tool.face.listed]

    def __repr__(self) -> str:
        return f"<MCP server {self.namespace}: {self.route.label}>"


async def loaded() -> None:
    """Load the library beside the event loop: that takes a second, in which others should not stand still."""
    if _HOME in sys.modules:
        return
    try:
        await asyncio.to_thread(import_module, _HOME)
    except ImportError as error:
        raise NotStarted(f"MCP servers need the package mcp ({error}): pip install 'surehand[mcp]'.") from error


_HOME = f"{__package__}.talk"
_TALKS: set[str] = set()
"""Those of this process that are going on: only they can bring answers to servers that wait."""


def _text(server: Mapping[str, Any], key: str) -> str:
    return clean_line(server.get(key))
