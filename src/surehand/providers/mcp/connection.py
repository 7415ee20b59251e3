"""Connection: one server for one user, and the one task that owns it. Loaded when the first is opened."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic as _now
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from surehand.core.errors import NotStarted
from surehand.providers.mcp.addresses.address import EVERYONE, ServerAddress, Who
from surehand.providers.mcp.addresses.label import masked
from surehand.providers.mcp.backoff import Backoff
from surehand.providers.mcp.life import Life
from surehand.providers.mcp.manifest import Manifest
from surehand.providers.mcp.request import Request
from surehand.providers.mcp.transports.connection_errors import ConnectionFailure, failure_of

if TYPE_CHECKING:
    from surehand.providers.mcp.options import Options

Heard: TypeAlias = Callable[["Connection", Manifest], Awaitable[None]]
"""Told what a server offers, before any call is sent to it."""
State: TypeAlias = Literal["idle", "starting", "up", "waiting", "closed"]
_URL = re.compile(r"[a-z]+://")
LEAVING = 6.0
"""Seconds that the library has to let go of a connection."""


class Connection:
    """Any task may call; one alone enters and leaves the library's client, so no cancel scope is left in another.

    A request that comes while the server starts waits in a queue. One that comes while a broken server is left alone
    for a while is refused at once.
    """

    def __init__(self, name: str, route: ServerAddress, who: Who, options: Options, heard: Heard) -> None:
        self.name, self.who = name, who
        self.state: State = "idle"
        self._since = _now()
        """When it came to be so."""
        self.trouble: ConnectionFailure | None = None
        """What went wrong last, until all is well again."""
        self.story = ""
        """What the server itself had to say about that."""
        self.manifest: Manifest | None = None
        self.definitions: Mapping[str, Mapping[str, Any]] = {}
        """The tools in it, by their names on the wire."""
        self.persistent = False
        """Whether it is tried for ever: where its tools are not known, no call can bring it back."""
        self.used = _now()
        self._route, self._options, self._heard = route, options, heard
        self._log = logging.getLogger(f"surehand.mcp.{name}")
        self._life: Life | None = None
        self._lives = 0
        """How many have ended."""
        self._owner: asyncio.Task[None] | None = None
        self._queue: list[Request] = []
        self._backoff = Backoff()
        self._closing = False
        self._turned = asyncio.Event()

    @property
    def busy(self) -> bool:
        """Whether somebody waits for it."""
        return bool(self._queue) or self.state == "starting" or bool(self.requests)

    @property
    def starting_for(self) -> float:
        """Seconds for which the server has been starting."""
        return _now() - self._since if self.state == "starting" else 0.0

    @property
    def requests(self) -> list[Request]:
        """The calls that the server works on, or waits with for somebody's answer."""
        return list(self._life.requests) if self._life is not None else []

    @property
    def gist(self) -> str:
        """What is known of a server that does not come up, in words that a model may read."""
        return " ".join(self._life.exit_summary()) if self._life is not None else ""

    # For callers

    def submit(self, request: Request) -> None:
        """Have a request carried out; it is told what comes of it."""
        self.used = _now()
        if self._life is not None and self._life.up:
            self._life.submit(request)
        elif self._closing or self.state == "waiting":
            request.tell(self.unavailable())
        else:
            self._queue.append(request)
            self._wake()

    async def started(self) -> Manifest:
        """Wait until the server is up and has said what it offers. Raises `NotStarted`."""
        self.used = _now()
        self._backoff.cut_short()
        lives = self._lives
        while self.state != "up" or self.manifest is None:
            if self._closing or self._lives > lives:
                raise self.unavailable(self._where)
            self._wake()
            self._turned.clear()
            await self._turned.wait()
        return self.manifest

    async def relist(self) -> Manifest:
        """Ask the server again what it offers."""
        if self._life is not None and self._life.up:
            await self._life.relist()
        return await self.started()

    def suspect(self) -> None:
        """A call got no answer in time: see whether the server answers at all, and make it anew if not."""
        if self._life is not None:
            self._life.suspect()

    async def close(self) -> None:
        """Leave the server, and leave nothing behind."""
        self._closing = True
        self._backoff.cut_short()
        if (owner := self._owner) is not None:
            if self._life is not None and self._life.up:
                self._life.leave()
            else:  # it is still being made
                owner.cancel()
            _, late = await asyncio.wait({owner}, timeout=LEAVING)
            if late:
                self._log.warning("The connection to %s was not let go in time.", self.name)
                owner.cancel()
                await asyncio.wait({owner}, timeout=1.0)
        self._turn("closed")

    # The owner

    def _wake(self) -> None:
        if self._owner is None and not self._closing:
            self._turn("starting")
            self._owner = asyncio.get_running_loop().create_task(self._own(), name=f"mcp: {self.name}")

    async def _own(self) -> None:
        try:
            while not self._closing:
                self._turn("starting")
                well = await self._one_life()
                if not (bool(self._queue) if well else await self._tries_again()):
                    break
        finally:
            self._owner = self._life = None
            self._turn("closed" if self._closing else "idle")
            self._refuse_queue()

    async def _one_life(self) -> bool:
        """Whether it was left because nobody needs it."""
        life = self._life = Life(
            self.name, self._route, self._options, self._log, offers=self._listed, answered=self._backoff.forget
        )
        self._up_at: float | None = None
        try:
            reason = await life.live(self.who, self._came_up)
        except (Exception, BaseExceptionGroup, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_asked_to_stop():
                raise
            self._count(self._explained(error, life))
            return False
        finally:
            self._queue = [*life.left(), *self._queue]
            self._lives += 1
            self._turned.set()
        if reason and not self._closing:
            self._count(ConnectionFailure(True, True, reason))
        return not reason or self._closing

    def _came_up(self) -> None:
        assert self._life is not None
        self._up_at, self.trouble = _now(), None
        self._turn("up")
        queue, self._queue = self._queue, []
        for request in queue:
            self._life.submit(request)

    async def _listed(self, manifest: Manifest) -> None:
        self.manifest, self.definitions = manifest, {str(each.get("name")): each for each in manifest.tools}
        await self._heard(self, manifest)

    # Failures

    def _explained(self, error: BaseException, life: Life) -> ConnectionFailure:
        """What is told of it; the whole story, with what the server printed, is for the log."""
        told, trouble, self.story = self.story, failure_of(error), life.exit_report()
        news = [each for each in life.exit_summary() if not _says(trouble.message, each)]
        message = " ".join([trouble.message, *news])
        if "\n" in self.story and self.story != told:  # what it says each time is told once
            self._log.warning("The MCP server %s: %s", self.name, self.story)
        hopeless = trouble.hopeless or self._route.hopeless(error)
        return ConnectionFailure(trouble.sent, True, message, hopeless=hopeless, stranger=trouble.stranger)

    def _count(self, trouble: ConnectionFailure) -> None:
        self._backoff.count(0.0 if self._up_at is None else _now() - self._up_at)
        # One that was never up is told of by whoever waits for it; that it is still down is no news.
        news = self.manifest is not None and self.trouble is None
        self.trouble = trouble
        level = logging.WARNING if news else logging.INFO
        self._log.log(level, "The MCP server %s%s is down: %s", self.name, self._where, trouble.message)

    async def _tries_again(self) -> bool:
        """Whether there is reason to; waits for as long as a broken server is left alone."""
        if self.trouble is not None and self.trouble.hopeless:
            return False
        if self._backoff.left and not self._closing:
            self._turn("waiting")
            self._refuse_queue()
            await self._backoff.wait()
        again = self._options.per != "session" or self._backoff.failures < 2  # else its next call starts it again
        return bool(self._queue) or self.persistent or (again and self._is_wanted())

    def _is_wanted(self) -> bool:
        return self._options.idle is None or _now() - self.used < float(self._options.idle)

    @property
    def _where(self) -> str:
        """The URL of one that has any, in brackets, for people: a host alone does not say which of its servers."""
        return f" ({masked([self._route.label])[0]})" if _URL.match(self._route.label) else ""

    def unavailable(self, where: str = "") -> NotStarted:
        """What is said of it while it is not up."""
        if self._closing:
            return NotStarted(f"The MCP server {self.name} is not connected: the runtime is closing.")
        left = self._backoff.left if self.state == "waiting" else None
        waits = self._waits_for_a_user
        state = "waits for a user to sign in" if waits else "is not connected"
        why = f": {self.trouble.message}" if self.trouble else "."
        when = f" It is tried again in {left:.0f} s." if left is not None and not waits else ""
        code = "mcp_restart_failed" if left is None else "mcp_restart_in_progress"
        return NotStarted(
            f"The MCP server {self.name}{where} {state}{why}{when}",
            data={"reason": code, "server": self.name},
            retry_after=left,
        )

    @property
    def _waits_for_a_user(self) -> bool:
        """Whether it is down because nobody in particular is let in."""
        shared = self._options.per == "everyone"
        return self.trouble is not None and self.trouble.stranger and self.who == EVERYONE and not shared

    def _refuse_queue(self) -> None:
        queue, self._queue = self._queue, []
        for request in queue:
            request.tell(self.unavailable())

    def _turn(self, state: State) -> None:
        if state != self.state:
            self.state, self._since = state, _now()
        self._turned.set()


def _is_asked_to_stop() -> bool:
    """A transport that breaks cancels the task that entered it, and takes that back; anybody else means it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _says(message: str, sentence: str) -> bool:
    """Whether the message has said it already: how the server ended, or what it wrote last."""
    return any(each in message and each in sentence for each in _ENDS)


_ENDS = ("exit code", "with signal", "It last wrote:")
