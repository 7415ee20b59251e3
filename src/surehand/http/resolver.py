"""Resolvers find the addresses of a host; `SystemResolver` is the default one."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from surehand.core.errors import NotFound, NotStarted
from surehand.core.threads import HandlerThreads
from surehand.http.failures import mark_unsent

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host as text; it is given the host and the port."""


class SystemResolver:
    """The resolver of the system. `getaddrinfo` blocks and cannot be cancelled, so it runs in threads."""

    def __init__(self) -> None:
        self._threads = HandlerThreads(max_threads=8)

    async def __call__(self, host: str, port: int) -> list[str]:
        """Look up the addresses of a host."""
        try:
            found = await self._threads.run(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (socket.gaierror, UnicodeError) as error:
            if getattr(error, "errno", None) == socket.EAI_AGAIN:
                raise NotStarted(f"The address of {host} could not be looked up now. Try again later.") from error
            raise unknown_host_error(host) from error
        return [str(entry[4][0]) for entry in found]

    def close(self) -> None:
        """End its threads."""
        self._threads.close()


def unknown_host_error(host: str) -> NotFound:
    """The error for a host that does not exist."""
    return mark_unsent(NotFound(f"There is no host {host}. Check the spelling of the URL."))
