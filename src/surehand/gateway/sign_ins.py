"""`SignIns`: the sign-ins to servers that people have begun in the console and not finished."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from surehand.core.errors import DefinitionError, ToolError
from surehand.core.protocols import Authorizable
from surehand.gateway.access.identity import Identity
from surehand.gateway.gateway import Gateway


@dataclass(eq=False, slots=True)
class SignIn:
    """One sign-in of a user to a server, until it has ended."""

    url: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """The address that the person opens; cancelled if there is none, because the user is signed in already."""
    task: asyncio.Task[None] | None = None
    problem: str = ""
    """Why the sign-in failed; empty if it did not."""

    @property
    def is_running(self) -> bool:
        """Whether the person may still sign in at the address."""
        return self.task is not None and not self.task.done()

    async def show_url(self, url: str) -> None:
        """Take the address that the person has to open."""
        if not self.url.done():
            self.url.set_result(url)

    async def end(self) -> None:
        """Stop waiting for the person."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task})


class SignIns:
    """At most one sign-in for each server and user: beginning another one ends the first."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._by_server_and_user: dict[tuple[str, str | None], SignIn] = {}

    def find(self, server: str, identity: Identity) -> SignIn | None:
        """The last sign-in of an identity's user to a server."""
        return self._by_server_and_user.get((server, identity.user))

    async def begin(self, server: str, identity: Identity, provider: Authorizable) -> SignIn:
        """Begin a sign-in, and return once its address is known or it has ended."""
        # Again after each wait: another request may have begun one meanwhile.
        while (earlier := self.find(server, identity)) is not None and earlier.is_running:
            await earlier.end()
        sign_in = SignIn()
        self._by_server_and_user[server, identity.user] = sign_in
        task = self._gateway.spawn_in_background(self._run(sign_in, server, identity, provider))
        sign_in.task = task
        # Not in the task itself: it may be cancelled before its first step.
        task.add_done_callback(lambda _: sign_in.url.cancel())
        url_or_end: set[asyncio.Future[Any]] = {sign_in.url, task}
        await asyncio.wait(url_or_end, return_when=asyncio.FIRST_COMPLETED)
        return sign_in

    async def _run(self, sign_in: SignIn, server: str, identity: Identity, provider: Authorizable) -> None:
        try:
            await provider.sign_in(identity.user, sign_in.show_url)
            await self._gateway.audit_sign_in(identity, server)
            # The server may have refused to list its tools until now.
            await self._gateway.scope(identity).refresh(server)
        except (ToolError, DefinitionError) as error:
            sign_in.problem = str(error)
