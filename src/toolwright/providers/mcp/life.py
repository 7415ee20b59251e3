"""Life: one client of the library, from the first byte to the last. Loaded when a connection is opened."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from secrets import randbelow
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp import Client

from toolwright.core.errors import Unavailable
from toolwright.providers.mcp.calls import SCATTERED
from toolwright.providers.mcp.chores import Chores
from toolwright.providers.mcp.health import Health
from toolwright.providers.mcp.listed import listed
from toolwright.providers.mcp.manifest import Manifest
from toolwright.providers.mcp.news import News
from toolwright.providers.mcp.patience import Patience
from toolwright.providers.mcp.request import Lost, Request
from toolwright.providers.mcp.routes.trouble import trouble_of
from toolwright.providers.mcp.turnstile import Turnstile
from toolwright.providers.mcp.weir import Weir

if TYPE_CHECKING:
    import logging

    from toolwright.providers.mcp.options import Options
    from toolwright.providers.mcp.routes.route import Route, Who

RELISTING = 30.0
"""Seconds that a server has to say again what it offers."""


class Life:
    """It is entered and left by the one task that owns the connection; what belongs to it ends with it."""

    def __init__(
        self,
        name: str,
        route: Route,
        options: Options,
        log: logging.Logger,
        *,
        offers: Callable[[Manifest], Awaitable[None]],
        answered: Callable[[], None],
    ) -> None:
        self.name, self._route, self._options, self._log = name, route, options, log
        self._offers, self._answered = offers, answered
        self.client: Client | None = None
        """There while the server is up."""
        self.requests: dict[Request, None] = {}
        """Those that were sent and are not over, or wait for somebody's answer; oldest first."""
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._gone = ""
        self._unsent: list[Request] = []
        self._target: Any = None
        self._weir: Weir | None = None
        self._older = False
        self._chores, self._turnstile = Chores(name), Turnstile(self._begin)
        self._patience = Patience(options.patience)
        self._news = News(log, self._chores, self.relist)
        self._health = Health(options, log, self)

    @property
    def up(self) -> bool:
        """Whether calls can be sent."""
        return self.client is not None and not self._over.done()

    async def live(self, who: Who, up: Callable[[], None]) -> str:
        """Come up, be there, and leave: why, or nothing if nobody needs it. Raises what kept it from coming up."""
        try:
            async with AsyncExitStack() as stack:
                self.client = await self._come_up(stack, who)
                up()
                self._news.attend(self.client)
                self._chores.start("health", self._health.look_after(self.client))
                try:
                    return await self._over
                finally:
                    self._go_down()
        finally:
            self._go_down()
            await self._chores.ended()
            for request in list(self.requests):
                await request.ended()
            if self._weir is not None and self._weir.calls is not None:
                await self._weir.calls.ended()

    def leave(self, reason: str = "") -> None:
        """Have it end."""
        self._gone = self._gone or reason
        if not self._over.done():
            self._over.set_result(reason)

    def left(self) -> list[Request]:
        """Requests that were not sent, for the next life."""
        return self._unsent

    async def story(self) -> str:
        """What is known of why it did not come up."""
        told = getattr(self._target, "story", None)
        return str(told()) if told is not None else await self._route.explain()

    def gist(self) -> list[str]:
        """The same in sentences that a model may read."""
        told = getattr(self._target, "gist", None)
        return told() if told is not None else []

    # Calls

    def submit(self, request: Request) -> None:
        """Send a request, or let it wait until one before it has asked or ended."""
        self._health.used()
        if self._older:
            self._turnstile.enter(request)
        else:
            self._begin(request)

    def _begin(self, request: Request) -> None:
        assert self.client is not None
        self.requests[request] = None
        calls = self._weir.calls if self._weir is not None else None
        way = calls if calls is not None and calls.ready else self.client.session
        request.begin(way, self._patience, ended=self._ended, leave=self.leave)

    def _ended(self, request: Request) -> None:
        self.requests.pop(request, None)
        if self._older:
            self._turnstile.ended(request)
        if request.answered:
            self._health.answered()
            self._answered()
        else:
            self._health.used()

    def suspect(self) -> None:
        """See whether the server answers at all; leave it if not."""
        if self.client is not None:
            self._chores.start("probe", self._health.probe(self.client))

    async def relist(self) -> None:
        """Ask the server again what it offers."""
        if (client := self.client) is None:
            return
        try:
            async with asyncio.timeout(RELISTING):
                manifest = await listed(client, self._log)
        except TimeoutError:
            raise Unavailable(f"{self.name} does not say what it offers within {RELISTING:g} s.") from None
        except Exception as error:
            raise Unavailable(f"{self.name} does not say what it offers: {trouble_of(error).message}") from error
        self._health.heard()
        await self._offers(manifest)

    async def _asked(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        """In the older protocol a server asks while it works."""
        able = [request for request in self.requests if request.asked is None and not request.over]
        if (request := self._turnstile.meant(able)) is None:
            self._log.warning("%s asks, and nobody can say for which of %d calls.", self.name, len(able))
            return types.ErrorData(code=types.INVALID_REQUEST, message="It is not known which call this is about.")
        answer = request.ask(params.model_dump(mode="json", by_alias=True, exclude_none=True))
        self._turnstile.asked(request)
        return await answer

    # Coming and going

    async def _come_up(self, stack: AsyncExitStack, who: Who) -> Client:
        async with asyncio.timeout(self._route.connecting):  # a cancel scope would have to outlive what is entered here
            client = await self._entered(stack, who)
            self._older = client.protocol_version < "2026"
            _scatter(client)
            if self._weir is not None and self._weir.calls is not None:
                self._weir.calls.belong_to(client.session)
            await self._offers(await listed(client, self._log))
        return client

    async def _entered(self, stack: AsyncExitStack, who: Who) -> Client:
        targets = list(self._route.targets(who, self.leave))
        for self._target in targets[:-1]:
            try:
                return await stack.enter_async_context(self._made(self._target))
            except Exception as error:
                if not self._route.falls_back(error):
                    raise
                self._log.info("%s Another way is tried.", trouble_of(error).message)
        self._target = targets[-1]
        return await stack.enter_async_context(self._made(self._target))

    def _made(self, target: Any) -> Client:
        modern = self._options.protocol not in ("auto", "legacy")
        carries = hasattr(type(target), "__aenter__")  # else it is a server of this very process
        self._weir = Weir(target, self._log, self._news.changed, modern=modern) if carries else None
        return Client(
            self._weir or target,
            mode=self._options.protocol,
            elicitation_callback=self._asked,
            message_handler=self._news.noticed,
            logging_callback=self._news.logged,
            client_info=_ourselves(),
            cache=None,
        )

    def _go_down(self) -> None:
        """Nothing is awaited here: the library may be cancelling everything around it."""
        self.client = None
        self._unsent += self._turnstile.clear()  # before those ahead of them end, which would let them begin
        self._chores.cancel()
        self._patience.close()
        for request in list(self.requests):
            request.cancel()
            request.tell(Lost(self._gone or "The connection was closed."))


def _scatter(client: Client) -> None:
    """An answer to a question must not come under the id that the question was asked under, also after a restart."""
    dispatcher = client.session._dispatcher
    if hasattr(dispatcher, "_next_id"):
        dispatcher._next_id = randbelow(SCATTERED)


def _ourselves() -> types.Implementation:
    name = __name__.partition(".")[0]
    return types.Implementation(name=name, version=sys.modules[name].__version__)
