"""MCP proxies: a tool of a server, called through a proxy and directly. The client is the same, and so is the server.

Client and server are the library's own. Whatever is in front decides what "directly" means: the same call over the same
transport in the same protocol, without the proxy.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from bench.mcp_calls import ARGUMENTS, IN_FLIGHT, in_flight
from bench.mcp_servers import PROTOCOLS, served
from bench.measure import ratio, repeated
from bench.table import Row

if TYPE_CHECKING:
    from mcp import Client

GOALS = {"stdio": 1.5, "http": 2.0}
"""By what is in front."""
ROOT = Path(__file__).parents[1]
SERVER = (
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); import bench.mcp_web as w; w.server.run()",
)
"""The server of `mcp_web.py` over a pipe."""
Command: TypeAlias = tuple[str, ...]
"""What starts a server or a proxy."""
SAME = (("stdio", "stdio"), ("http", "http"))
MIXED = (("stdio", "http"), ("http", "stdio"))


@dataclass(frozen=True)
class Proxy:
    """One that can be put in front of a server."""

    name: str
    command: Callable[[str, Command], Command]
    """How it is started, by what is in front and what is behind."""
    protocols: tuple[str, ...] = PROTOCOLS
    ways: tuple[tuple[str, str], ...] = SAME
    """What is in front and what is behind, where it can do that."""
    goals: dict[str, float] = field(default_factory=dict)
    """The most that a call through it may take of a direct call, by what is in front."""


OURS = Proxy(
    "surehand", lambda front, behind: (sys.executable, "-P", _here("mcp_front.py"), front, *behind), goals=GOALS
)


def _here(name: str) -> str:
    return str(Path(__file__).with_name(name))


async def mcp_proxy(*, rounds: int = 31, count: int = 64) -> list[Row]:
    """Ours."""
    return await measured([OURS], rounds, count)


async def others(*, rounds: int = 7, count: int = 32) -> list[Row]:
    """Those of others, and ours where theirs have something else in front than behind."""
    from bench.peers.environments import environment

    fastmcp, mcp_proxy = environment("fastmcp"), environment("mcp-proxy")
    script = str(ROOT / "bench/peers/fastmcp_proxy.py")
    proxies = [
        Proxy(
            f"fastmcp {await _version(fastmcp, 'fastmcp')} create_proxy, {told}",
            lambda front, behind, how=how: (str(fastmcp), "-P", script, front, how, *behind),
        )
        for how, told in (("shared", "one session behind"), ("fresh", "as it comes"))
    ]
    proxies += [
        Proxy(
            f"mcp-proxy {await _version(mcp_proxy, 'mcp-proxy')}", partial(_mcp_proxy, mcp_proxy), PROTOCOLS[:1], MIXED
        ),
        Proxy(f"surehand {version('surehand')}", OURS.command, PROTOCOLS[:1], MIXED),
    ]
    return await measured(proxies, rounds, count)


def _mcp_proxy(python: Path, front: str, behind: Command) -> Command:
    program = str(python.with_name("mcp-proxy"))
    if front == "stdio":
        return (program, "--log-level", "ERROR", "--transport", "streamablehttp", *behind)
    return (program, "--log-level", "ERROR", "--port", PORT, "--", *behind)


PORT = "PORT"
"""Stands for a free one in the command of a proxy that cannot say which it took."""


async def _version(python: Path, name: str) -> str:
    asked = f"import importlib.metadata as m; print(m.version({name!r}))"
    process = await asyncio.create_subprocess_exec(str(python), "-c", asked, stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0].decode().strip()


async def measured(proxies: Iterable[Proxy], rounds: int, count: int) -> list[Row]:
    rows: list[Row] = []
    async with served() as url:
        for proxy in proxies:
            for front, behind in proxy.ways:
                for protocol in proxy.protocols:
                    rows += await _measured(proxy, front, behind, protocol, url, rounds, count)
    return rows


async def _measured(
    proxy: Proxy, front: str, behind: str, protocol: str, url: str, rounds: int, count: int
) -> list[Row]:
    command = proxy.command(front, (url,) if behind == "http" else SERVER)
    async with AsyncExitStack() as stack:
        through = await stack.enter_async_context(_client(front, command, protocol))
        directly = _client(front, SERVER, protocol) if front == "stdio" else _at(url, protocol)
        limit = await stack.enter_async_context(directly)
        calls = [partial(each.call_tool, "add", ARGUMENTS) for each in (through, limit)]
        for call in calls:
            assert (await call()).structured_content == {"result": 3}
        one = await ratio(*(repeated(call, count=count) for call in calls), rounds=rounds)
        many = await ratio(*(in_flight(call, count=count) for call in calls), rounds=rounds)
    how = f"{front} in front and {behind} behind, {protocol}".replace("http", "HTTP")
    who = f"{proxy.name}: " if proxy is not OURS else ""
    goal = proxy.goals.get(front)
    note = "" if goal else "for information"
    return [
        Row(f"{who}call through an MCP proxy, {how} / the same call direct", one, goal, note=note),
        Row(f"{who}{IN_FLIGHT} calls in flight through an MCP proxy, {how} / direct", many, goal, note=note),
    ]


@asynccontextmanager
async def _client(front: str, command: Command, protocol: str) -> AsyncIterator[Client]:
    """A client of what a command starts."""
    from mcp import Client, StdioServerParameters

    if front == "stdio":
        async with Client(StdioServerParameters(command=command[0], args=list(command[1:])), mode=protocol) as client:
            yield client
    else:
        async with _listening(command) as url, _at(url, protocol) as client:
            yield client


def _at(url: str, protocol: str) -> Client:
    from mcp import Client

    return Client(url, mode=protocol)


@asynccontextmanager
async def _listening(command: Command) -> AsyncIterator[str]:
    """The URL of what a command starts: it prints its port, or is told one."""
    port = _free() if PORT in command else 0
    argv = [str(port) if word == PORT else word for word in command]
    said = asyncio.subprocess.DEVNULL if port else None  # mcp-proxy has something to say when it is ended
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE, stderr=said)
    assert process.stdout is not None
    try:
        if port:
            await _open(port)
        yield f"http://127.0.0.1:{port or int(await process.stdout.readline())}/mcp"
    finally:
        process.terminate()
        await process.communicate()


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


async def _open(port: int) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


if __name__ == "__main__":
    from bench.table import table

    chosen: Any = {"ours": mcp_proxy, "others": others}
    for name in sys.argv[1:] or chosen:
        print(table(asyncio.run(chosen[name]())))
