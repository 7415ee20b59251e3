"""Connection: one server for one user, and the one task that owns it. Loaded when the first is opened."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from secrets import randbelow
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import mcp_types as types
from mcp import Client

from toolwright.core.errors import NotStarted, Unavailable
from toolwright.providers.mcp.backoff import Backoff
from toolwright.providers.mcp.chores import Chores
from toolwright.providers.mcp.health import Health
from toolwright.providers.mcp.listing import listed
from toolwright.providers.mcp.manifest import Manifest
from toolwright.providers.mcp.news import News
from toolwright.providers.mcp.patience import Patience
from toolwright.providers.mcp.request import Lost, Request
from toolwright.providers.mcp.routes.route import Route, Who
from toolwright.providers.mcp.routes.trouble import Trouble, trouble_of
from toolwright.providers.mcp.turnstile import Turnstile
from toolwright.providers.mcp.weir import Weir

if TYPE_CHECKING:
    from toolwright.providers.mcp.options import Options

Heard: TypeAlias = Callable[["Connection", Manifest], Awaitable[None]]
"""Told what a server offers, before any call is sent to it."""
State: TypeAlias = Literal["idle", "starting", "up", "waiting", "closed"]
RELISTING = 30.0
"""Seconds that a server has to say again what it offers."""
LEAVING = 6.0
"""Seconds that the library has to let go of a connection."""


class Connection:
    """Any task may call; one alone enters and leaves the library's client, so no cancel scope is left in another.

    A request that comes while the server starts waits in a queue. One that comes while a broken server is left alone
    for a while is refused at once.
    """

    def __init__(self, name: str, route: Route, who: Who, options: Options, heard: Heard) -> None:
        self.name, self.route, self.who, self.options = name, route, who, options
        self.state: State = "idle"
        self.trouble: Trouble | None = None
        """What went wrong last, until all is well again."""
        self.story = ""
        """What the server itself had to say about that."""
        self.manifest: Manifest | None = None
        self.persistent = False
        """Whether it is tried for ever: where its tools are not known, no call can bring it back."""
        self.requests: dict[Request, None] = {}
        """Those that were sent and are not over, or wait for somebody's answer; oldest first."""
        self._log = logging.getLogger(f"toolwright.mcp.{name}")
        self._heard = heard
        self._client: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._queue: list[Request] = []
        self._over: asyncio.Future[str] | None = None
        """There while the server is up; once it is resolved, the server is left."""
        self._gone: str | None = None
        self._closing = False
        self._turned = asyncio.Event()
        self._backoff, self._chores, self._turnstile = Backoff(), Chores(name), Turnstile(self._begin)
        self._health = Health(options, self._log, busy=lambda: bool(self.requests), leave=self._leave)
        self._news = News(self._log, self._chores, self.relist)
        self._patience = Patience(options.patience)

    # For callers

    def submit(self, request: Request) -> None:
        """Have a request carried out; it is told what comes of it."""
        self._health.used()
        if self._client is not None and self._over is not None and not self._over.done():
            self._enter(request)
        elif self._closing or self.state == "waiting":
            request.tell(self._unavailable())
        else:
            self._queue.append(request)
            self._wake()

    async def started(self) -> Manifest:
        """Wait until the server is up and has said what it offers. Raises `NotStarted`."""
        self._health.used()
        self._backoff.cut_short()
        while self.state != "up" or self.manifest is None:
            failures = self._backoff.failures
            self._wake()
            self._turned.clear()
            await self._turned.wait()
            if self._backoff.failures > failures or self._closing:
                raise self._unavailable()
        return self.manifest

    async def relist(self) -> Manifest:
        """Ask the server again what it offers."""
        if (client := self._client) is None:
            return await self.started()
        try:
            async with asyncio.timeout(RELISTING):
                manifest = await listed(client, self._log)
        except TimeoutError:
            raise Unavailable(f"{self.name} does not say what it offers within {RELISTING:g} s.") from None
        except Exception as error:
            raise Unavailable(f"{self.name} does not say what it offers: {trouble_of(error).message}") from error
        await self._listed(manifest)
        return manifest

    def lost(self, reason: str) -> None:
        """A call found out that the other side is gone, or does not know this session any more."""
        self._gone = self._gone or reason
        self._leave(reason)

    def suspect(self) -> None:
        """A call got no answer in time: see whether the server answers at all, and make it anew if not."""
        if self._client is not None:
            self._chores.start("probe", self._health.probe(self._client))

    async def close(self) -> None:
        """Leave the server, and leave nothing behind."""
        self._closing = True
        self._leave("")
        self._backoff.cut_short()
        if (owner := self._owner) is not None:
            if self._over is None:  # it is still being made
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
            self._owner = None
            self._turn("closed" if self._closing else "idle")
            self._refuse_queue()

    async def _one_life(self) -> bool:
        """From the first byte to the last; whether it was left because nobody needs it."""
        began, reason = _now(), ""
        try:
            async with AsyncExitStack() as stack:
                await self._come_up(stack)
                began = _now()
                assert self._over is not None
                try:
                    reason = await self._over
                finally:
                    self._go_down()
        except BaseException as error:
            if not isinstance(error, Exception) and _is_asked_to_stop():
                raise
            self._count(await self._explained(error), _now() - began)
            return False
        finally:
            self._client = self._over = None
            await self._chores.ended()
            await self._requests_ended()
        if reason:
            self._count(Trouble(True, True, reason), _now() - began)
        return not reason

    async def _come_up(self, stack: AsyncExitStack) -> None:
        async with asyncio.timeout(self.route.connecting):  # a cancel scope would have to outlive what is entered here
            client = await self._entered(stack)
            _scatter(client)
            manifest = await listed(client, self._log)
            await self._listed(manifest)
        self._over = asyncio.get_running_loop().create_future()
        self._client, self.trouble = client, None
        self._turn("up")
        if self._gone is not None:  # it went while it was being asked
            self._leave(self._gone)
        self._news.attend(client)
        self._chores.start("health", self._health.look_after(client))
        queue, self._queue = self._queue, []
        for request in queue:
            self._enter(request)

    async def _entered(self, stack: AsyncExitStack) -> Client:
        self._gone = None
        targets = list(self.route.targets(self.who, self.lost))
        for target in targets[:-1]:
            try:
                return await stack.enter_async_context(self._made(target))
            except Exception as error:
                if not self.route.falls_back(error):
                    raise
                self._log.info("%s Another way is tried.", trouble_of(error).message)
        return await stack.enter_async_context(self._made(targets[-1]))

    def _made(self, target: Any) -> Client:
        modern = self.options.protocol not in ("auto", "legacy")
        carries = hasattr(type(target), "__aenter__")  # else it is a server of this very process
        return Client(
            Weir(target, self._log, self._news.changed, modern=modern) if carries else target,
            mode=self.options.protocol,
            elicitation_callback=self._asked,
            message_handler=self._news.noticed,
            logging_callback=self._news.logged,
            client_info=_ourselves(),
            cache=None,
        )

    def _go_down(self) -> None:
        """Nothing is awaited here: the library may be cancelling everything around it."""
        self._client = None
        self._chores.cancel()
        self._queue += self._turnstile.clear()
        self._patience.close()
        for request in list(self.requests):
            request.cancel()
            request.tell(Lost(self._gone or "The connection was closed."))

    async def _requests_ended(self) -> None:
        requests, self.requests = self.requests, {}
        for request in requests:
            await request.ended()

    def _leave(self, reason: str) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result("" if self._closing else reason)

    # Trouble

    async def _explained(self, error: BaseException) -> Trouble:
        """What is told of it; the whole story, with what the server printed, is for the log."""
        trouble, self.story = trouble_of(error), await self.route.explain()
        gist = self.story.partition("\n")[0]
        message = trouble.message if gist in trouble.message else f"{trouble.message} {gist}"
        if self.story != gist:
            self._log.warning("%s", self.story)
        return Trouble(trouble.sent, True, message, hopeless=trouble.hopeless or self.route.hopeless(error))

    def _count(self, trouble: Trouble, lasted: float) -> None:
        self._backoff.count(lasted)
        self.trouble = trouble
        # One that was never up is told of by whoever waits for it.
        level = logging.WARNING if self.manifest is not None else logging.INFO
        self._log.log(level, "The MCP server %s is down: %s", self.name, trouble.message)

    async def _tries_again(self) -> bool:
        """Whether there is reason to; waits for as long as a broken server is left alone."""
        if self.trouble is not None and self.trouble.hopeless:
            return False
        if self._backoff.left and not self._closing:
            self._turn("waiting")
            self._refuse_queue()
            await self._backoff.wait()
        again = self.options.per != "session" or self._backoff.failures < 2  # else its next call starts it again
        return bool(self._queue) or self.persistent or (again and self._health.wanted)

    def _unavailable(self) -> NotStarted:
        left = self._backoff.left if self.state == "waiting" else None
        why = f": {self.trouble.message}" if self.trouble else "."
        when = f" It is tried again in {left:.0f} s." if left is not None else ""
        code = "mcp_restart_failed" if left is None else "mcp_restart_in_progress"
        return NotStarted(
            f"The MCP server {self.name} is not connected{why}{when}",
            data={"reason": code, "server": self.name},
            retry_after=left,
        )

    def _refuse_queue(self) -> None:
        queue, self._queue = self._queue, []
        for request in queue:
            request.tell(self._unavailable())

    # While it is up

    def _enter(self, request: Request) -> None:
        assert self._client is not None
        if self._client.protocol_version < "2026":
            self._turnstile.enter(request)
        else:
            self._begin(request)

    def _begin(self, request: Request) -> None:
        assert self._client is not None
        self.requests[request] = None
        request.begin(self._client.session, self._patience, self._ended)

    def _ended(self, request: Request) -> None:
        self.requests.pop(request, None)
        self._turnstile.ended(request)
        self._health.used()
        if request.answered:
            self._health.heard()
            self._backoff.failures = 0

    async def _listed(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self._health.heard()
        await self._heard(self, manifest)

    async def _asked(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """In the older protocol a server asks while it works."""
        able = (request for request in self.requests if request.asked is None and not request.over)
        if (request := self._turnstile.meant(able)) is None:
            return types.ErrorData(code=types.INVALID_REQUEST, message="No call is going on that could be asked.")
        answer = request.ask(params.model_dump(mode="json", by_alias=True, exclude_none=True))
        self._turnstile.asked(request)
        return await answer

    def _turn(self, state: State) -> None:
        self.state = state
        self._turned.set()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _is_asked_to_stop() -> bool:
    """A transport that breaks cancels the task that entered it, and takes that back; anybody else means it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _scatter(client: Client) -> None:
    """An answer to a question must not come under the id that the question was asked under, also after a restart."""
    dispatcher = client.session._dispatcher
    if hasattr(dispatcher, "_next_id"):
        dispatcher._next_id = randbelow(1 << 31)


def _ourselves() -> types.Implementation:
    name = __name__.partition(".")[0]
    return types.Implementation(name=name, version=sys.modules[name].__version__)
