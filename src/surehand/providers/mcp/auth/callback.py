"""Callback: the page on this machine to which a browser comes back with the answer to a sign-in."""

from __future__ import annotations

import asyncio
import errno
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from surehand.core.errors import DefinitionError, Denied

HOST, PATH = "127.0.0.1", "/callback"
LONGEST = 16 * 1024
"""Bytes that a request may have."""
PATIENCE = 5.0
"""Seconds in which a request has to be there."""
MOST = 32
"""Connections at once; a browser needs one or two."""
_NO_BROWSER = (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
"""Who comes like this brings no answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the browser brought."""

    code: str = field(repr=False)
    state: str = field(repr=False)
    issuer: str | None = None


class Callback:
    """Waits for one answer, which has to carry the state that was sent out."""

    def __init__(self) -> None:
        self.uri = ""
        self._state: str | None = None
        self._answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._visits = set[asyncio.Task[None]]()

    @classmethod
    @asynccontextmanager
    async def listening(cls, port: int = 0, *, prefer: int = 0) -> AsyncIterator[Callback]:
        """A callback while it can be reached: at a port, else at the preferred one, else at any that is free."""
        callback = cls()
        server = await callback._listen(port, prefer)
        callback.uri = f"http://{HOST}:{server.sockets[0].getsockname()[1]}{PATH}"
        try:
            yield callback
        finally:
            server.close()
            await callback._close()

    def expect(self, authorisation_url: str) -> None:
        """The state that counts from now on: the one in the URL that a person is sent to."""
        self._state = dict(parse_qsl(urlsplit(authorisation_url).query)).get("state")

    async def answer(self) -> Answer:
        """What the person's browser brings; raises `Denied` where the person, or the server, said no."""
        return await asyncio.shield(self._answer)

    async def _listen(self, port: int, prefer: int) -> asyncio.Server:
        try:
            return await asyncio.start_server(self._visited, HOST, port or prefer, limit=LONGEST)
        except OSError as error:
            if port:
                raise DefinitionError(
                    f"Port {port} of this machine is not free.", fix="end what uses it, or give another redirect_port."
                ) from error
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            return await asyncio.start_server(self._visited, HOST, 0, limit=LONGEST)

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._visits.add(task)
        try:
            if len(self._visits) <= MOST:
                async with asyncio.timeout(PATIENCE):
                    writer.write(self._page(await reader.readuntil(b"\r\n\r\n")))
                    await writer.drain()
        except (*_NO_BROWSER, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            self._visits.discard(task)

    async def _close(self) -> None:
        if not self._answer.done():
            self._answer.cancel()
        elif not self._answer.cancelled():
            self._answer.exception()  # nobody may have waited for it
        for visit in self._visits:
            visit.cancel()
        if self._visits:
            await asyncio.wait(set(self._visits))

    def _page(self, head: bytes) -> bytes:
        """The page for a request. Nothing that came with it is on the page."""
        line, _, rest = head.decode("latin-1").partition("\r\n")
        method, _, target = line.partition(" ")
        target = target.partition(" ")[0]
        if not self._is_here(rest) or urlsplit(target).path != PATH:
            return _page("404 Not Found", "There is nothing here.")
        if method != "GET":
            return _page("405 Method Not Allowed", "There is nothing to be sent here.")
        return self._taken(dict(reversed(parse_qsl(urlsplit(target).query))))

    def _is_here(self, headers: str) -> bool:
        """Whether it was us who were asked for, and not a name that somebody made lead here."""
        here = urlsplit(self.uri).netloc
        hosts = [value.strip() for name, _, value in map(_parted, headers.split("\r\n")) if name.lower() == "host"]
        return hosts in ([here], [here.replace(HOST, "localhost")])

    def _taken(self, given: Mapping[str, str]) -> bytes:
        state, code = given.get("state", ""), given.get("code", "")
        if self._state is None or not secrets.compare_digest(state.encode(), self._state.encode()):
            return _page("400 Bad Request", "This answer belongs to no sign-in that was begun here.")
        if self._answer.done():
            return _page("409 Conflict", "This sign-in was answered already.")
        if not code:
            self._answer.set_exception(Denied(f"The sign-in was refused{_reason(given.get('error', ''))}."))
            return _page("200 OK", "The sign-in was refused. You may close this window.")
        self._answer.set_result(Answer(code, state, given.get("iss")))
        return _page("200 OK", "Thank you. You may close this window and go back to where you came from.")


def _parted(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def _reason(error: str) -> str:
    """The server's word for it, if it is one."""
    return f" ({error})" if error.isascii() and error.replace("_", "").isalnum() and len(error) <= 40 else ""


def _page(status: str, text: str) -> bytes:
    body = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>surehand</title><p>{text}</p></html>\n'
    lines = (
        f"HTTP/1.1 {status}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        "X-Content-Type-Options: nosniff",
        "Referrer-Policy: no-referrer",
        "Cache-Control: no-store",
        "Connection: close",
    )
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()
