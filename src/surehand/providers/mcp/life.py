"""Life: one client of the library, from the first byte to the last. Loaded when a connection is opened."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp import Client

from surehand.core.errors import Unavailable
from surehand.providers.mcp.chores import Chores
from surehand.providers.mcp.direct_call import DirectCalls
from surehand.providers.mcp.health import Health
from surehand.providers.mcp.inbound_filter import InboundFilter
from surehand.providers.mcp.listed import listed
from surehand.providers.mcp.manifest import Manifest
from surehand.providers.mcp.news import News
from surehand.providers.mcp.request import Lost, Request
from surehand.providers.mcp.silence_timeout import SilenceTimeout
from surehand.providers.mcp.transports.connection_errors import failure_of
from surehand.providers.mcp.transports.transport import Transport
from surehand.providers.mcp.turnstile import Turnstile

if TYPE_CHECKING:
    import logging

    from surehand.providers.mcp.addresses.address import InProcessServer, ServerAddress, Who
    from surehand.providers.mcp.options import Options

RELISTING = 30.0
"""Seconds that a server has to say again what it offers."""


class Life:
    """It is entered and left by the one task that owns the connection; what belongs to it ends with it."""

    def __init__(
        self,
        name: str,
        route: ServerAddress,
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
        self._transport: Transport | None = None
        """None for a server of this process."""
        self._filter: InboundFilter | None = None
        self._older = False
        self._chores, self._turnstile = Chores(name), Turnstile(self._begin)
        self._timeout = SilenceTimeout(options.patience)
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
            if self._calls is not None:
                await self._calls.finish_writing()

    def leave(self, reason: str = "") -> None:
        """Have it end."""
        self._gone = self._gone or reason
        if not self._over.done():
            self._over.set_result(reason)

    def left(self) -> list[Request]:
        """Requests that were not sent, for the next life."""
        return self._unsent

    def exit_report(self) -> str:
        """How the server ended and what it wrote to stderr, for a person."""
        return self._transport.exit_report() if self._transport is not None else ""

    def exit_summary(self) -> list[str]:
        """The same in sentences that a model may read."""
        return self._transport.exit_summary() if self._transport is not None else []

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
        request.begin(self._calls or self.client.session, self._timeout, ended=self._ended, leave=self.leave)

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
                manifest = await self._list_tools(client)
        except TimeoutError:
            raise Unavailable(f"{self.name} does not say what it offers within {RELISTING:g} s.") from None
        except Exception as error:
            raise Unavailable(f"{self.name} does not say what it offers: {failure_of(error).message}") from error
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
            if self._calls is not None:
                self._calls.use_protocol(client.protocol_version)
            await self._offers(await self._list_tools(client))
        return client

    async def _list_tools(self, client: Client) -> Manifest:
        manifest = await listed(client, self._log)
        if self._calls is not None:
            self._calls.use_tools({str(tool.get("name")): tool.get("inputSchema") for tool in manifest.tools})
        return manifest

    @property
    def _calls(self) -> DirectCalls | None:
        """The direct path, which a server of this process does not have."""
        return self._filter.calls if self._filter is not None else None

    async def _entered(self, stack: AsyncExitStack, who: Who) -> Client:
        *others, last = self._route.transports(who, self.leave)
        for transport in others:
            try:
                return await stack.enter_async_context(self._made(transport))
            except Exception as error:
                if not self._route.falls_back(error):
                    raise
                self._log.info("%s Another way is tried.", failure_of(error).message)
        return await stack.enter_async_context(self._made(last))

    def _made(self, target: Transport | InProcessServer) -> Client:
        modern = self._options.protocol not in ("auto", "legacy")
        self._transport = target if isinstance(target, Transport) else None
        self._filter = None
        if self._transport is not None:
            self._filter = InboundFilter(self._transport, self._log, self._news.changed, modern=modern)
        return Client(
            self._filter or target,
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
        self._timeout.close()
        for request in list(self.requests):
            request.cancel()
            request.tell(Lost(self._gone or "The connection was closed."))


def _ourselves() -> types.Implementation:
    name = __name__.partition(".")[0]
    return types.Implementation(name=name, version=sys.modules[name].__version__)
