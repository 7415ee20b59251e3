"""A server on loopback that answers what a test tells it to, byte for byte, and a network that leads nowhere else."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

import httpcore2

from surehand.http import connector
from surehand.http.client import HttpClient

PUBLIC = "93.184.216.34"
"""Stands for the public internet: dialled, it leads to a server of the test."""


@dataclass(frozen=True)
class Asked:
    """A request as it came over the wire."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    raw: bytes = field(repr=False, default=b"")


def reply(body: bytes | str = b"", status: int = 200, reason: str = "OK", **headers: Any) -> bytes:
    raw = body.encode() if isinstance(body, str) else body
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    given.setdefault("content-length", len(raw))
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value is not None)
    return f"HTTP/1.1 {status} {reason}\r\n{lines}\r\n".encode() + raw


def redirect(location: str, status: int = 302) -> bytes:
    return reply(status=status, reason="Found", location=location)


def chunked(*pieces: bytes, **headers: Any) -> bytes:
    head = reply(content_length=None, transfer_encoding="chunked", **headers)
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


class Server:
    """Remembers what it was asked; `answer` gives bytes, or several pieces of them one after another."""

    def __init__(self, answer: Callable[[Asked], Any]) -> None:
        self.answer = answer
        self.asked = list[Asked]()
        self.connections = 0
        self.port = 0
        self._tasks = set[asyncio.Task[Any]]()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            while (asked := await self._read(reader)) is not None:
                self.asked.append(asked)
                await self._write(writer, self.answer(asked))
                if b"connection: close" in asked.raw.lower():
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError, ssl.SSLError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError, ssl.SSLError, asyncio.CancelledError):
                await writer.wait_closed()
            self._tasks.discard(task)

    async def _read(self, reader: asyncio.StreamReader) -> Asked | None:
        try:
            first = await reader.readexactly(1)
            if first == b"\x16":  # the beginning of a TLS handshake
                return None
            head = first + await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        line, *lines = head.decode("latin-1").split("\r\n")[:-2]
        method, path, _ = line.split(" ", 2)
        headers = dict[str, str]()
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Asked(method, path, headers, body, head)

    async def _write(self, writer: asyncio.StreamWriter, answer: Any) -> None:
        if isinstance(answer, bytes):
            writer.write(answer)
            await writer.drain()
            return
        async with aclosing(answer) as pieces:
            async for piece in pieces:
                if piece is None:
                    writer.close()
                    return
                writer.write(piece)
                await writer.drain()

    async def stop(self) -> None:
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


@asynccontextmanager
async def serving(answer: Callable[[Asked], Any], tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(answer)
    listening = await asyncio.start_server(server.connected, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await server.stop()
        await listening.wait_closed()
        await asyncio.sleep(0)  # a connection that was accepted last gets its task begun
        await server.stop()
        # Handshakes that failed end a little later than their connection.
        await asyncio.gather(*(task for task in asyncio.all_tasks() if "_accept_connection2" in str(task.get_coro())))


class Names:
    """A resolver that knows what it is told; a list of answers is given out one by one, the last for good."""

    def __init__(self, **names: Any) -> None:
        self._answers = {name.replace("_", "."): deque(self._several(answer)) for name, answer in names.items()}
        self.asked = list[str]()

    @staticmethod
    def _several(answer: Any) -> Sequence[Sequence[str]]:
        if isinstance(answer, str):
            return [[answer]]
        return answer if answer and not isinstance(answer[0], str) else [answer]

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self._answers.get(host, deque([[]]))
        return answers.popleft() if len(answers) > 1 else answers[0]


class Dials:
    """A dialer that remembers every attempt; only addresses that it is told of lead anywhere, and that is loopback."""

    def __init__(self, **servers: Server) -> None:
        self._servers = servers
        self.dialled = list[tuple[str, int]]()
        self.leads = dict[str, Server]()

    async def __call__(self, address: str, port: int, timeout: float | None) -> Any:
        self.dialled.append((address, port))
        if (server := self.leads.get(address)) is None:
            raise httpcore2.ConnectError("nobody there")
        return await httpcore2.AnyIOBackend().connect_tcp("127.0.0.1", server.port, timeout=timeout)


def internet(server: Server | None = None, **more: Server) -> Dials:
    """The public address leads to `server`; further addresses are written `a_1_2_3_4`."""
    dials = Dials()
    if server is not None:
        dials.leads[PUBLIC] = server
    dials.leads.update({name[2:].replace("_", "."): other for name, other in more.items()})
    return dials


@asynccontextmanager
async def online(
    answer: Callable[[Asked], Any],
    *,
    tls: ssl.SSLContext | None = None,
    make: Callable[..., Any] = HttpClient,
    **settings: Any,
) -> AsyncIterator[tuple[Server, Any]]:
    """A server that is known as site.test and other.test, and a client that can reach it and nothing else."""
    async with serving(answer, tls) as server:
        names, dials = Names(site_test=PUBLIC, other_test="1.1.1.1"), internet(server, a_1_1_1_1=server)
        client = make(**{"resolver": names, "dialer": dials, **settings})
        async with client:
            yield server, client


@contextmanager
def port_of_nobody() -> Iterator[int]:
    """A port at which nobody listens, and which nobody is given meanwhile who does not ask for it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def only_loopback(monkeypatch: Any) -> None:
    """Make it impossible to dial anything else, or to ask the system's resolver for another name."""
    look_up, dial = socket.getaddrinfo, connector.dial

    def local_names(host: str, *args: Any, **more: Any) -> Any:
        assert host in ("localhost", "127.0.0.1", "::1"), f"a test looked up {host}"
        return look_up(host, *args, **more)

    async def local_dial(address: str, port: int, timeout: float | None) -> Any:
        assert ip_address(address).is_loopback, f"a test dialled {address}"
        return await dial(address, port, timeout)

    monkeypatch.setattr(socket, "getaddrinfo", local_names)
    monkeypatch.setattr(connector, "dial", local_dial)
