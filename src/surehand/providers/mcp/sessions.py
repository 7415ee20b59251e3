"""Sessions: the connections of one server, by whose they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from surehand.core.call import Call, Principal
from surehand.core.errors import NotStarted
from surehand.providers.mcp.addresses.address import EVERYONE, ServerAddress, Who
from surehand.providers.mcp.options import Options

if TYPE_CHECKING:
    from surehand.providers.mcp.connection import Connection, Heard


class Sessions:
    """Each user, or each session, has a connection of its own; nobody acts in another's name."""

    def __init__(self, name: str, route: ServerAddress, options: Options, heard: Heard) -> None:
        self._name, self._route, self._options, self._heard = name, route, options, heard
        self._open: dict[Who, Connection] = {}
        self._going: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._open.values()))

    def who(self, call: Call | Principal) -> Who:
        """Whose connection a call uses, or all that somebody calls."""
        match self._options.per:
            case "everyone":
                return EVERYONE
            case "user":
                return Who(call.user)
            case "session":
                return Who(call.user, call.session)

    def of(self, who: Who) -> Connection:
        """The connection of somebody; it is not started yet."""
        if (known := self._open.get(who)) is not None:
            return known
        from surehand.providers.mcp.connection import Connection  # loads the library, which takes a second

        if len(self._open) >= self._options.sessions:
            self._make_room()
        made = self._open[who] = Connection(self._name, self._route, who, self._options, self._heard)
        return made

    def found(self, who: Who) -> Connection | None:
        """The connection of somebody, if there is one."""
        return self._open.get(who)

    def _make_room(self) -> None:
        """The one that has been quiet for longest goes; what is in use stays."""
        quiet = [connection for connection in self if not connection.busy]
        if not quiet:
            raise NotStarted(
                f"The MCP server {self._name} has {self._options.sessions} connections, all in use. Try again later."
            )
        oldest = min(quiet, key=lambda connection: connection.used)
        del self._open[oldest.who]
        going = asyncio.get_running_loop().create_task(oldest.close(), name=f"mcp: {self._name} makes room")
        self._going.add(going)
        going.add_done_callback(self._going.discard)

    async def close(self) -> None:
        """Leave them all."""
        connections, self._open = list(self), {}
        await asyncio.gather(*(connection.close() for connection in connections), *self._going)
