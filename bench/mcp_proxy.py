"""Benchmark of MCP proxies: a tool call through a proxy compared with the same call made directly.

Client and server are the MCP SDK's. The direct call uses the transport and the protocol version in front of the proxy.
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

from bench.mcp_calls import ARGUMENTS, MAX_IN_FLIGHT, time_concurrent_calls
from bench.mcp_servers import PROTOCOLS, start_http_server
from bench.measure import measure_ratio, time_calls
from bench.table import Row

if TYPE_CHECKING:
    from mcp import Client

MAX_RATIO_BY_FRONT = {"stdio": 1.5, "http": 2.0}
"""Goal by the transport in front of the proxy."""
ROOT = Path(__file__).parents[1]
STDIO_SERVER = (
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); import bench.mcp_http_server as w; w.server.run()",
)
"""Command of the server of `mcp_http_server.py`, served over stdio."""
Command: TypeAlias = tuple[str, ...]
"""The command that starts a server or a proxy."""
SAME_TRANSPORT = (("stdio", "stdio"), ("http", "http"))
MIXED_TRANSPORTS = (("stdio", "http"), ("http", "stdio"))


@dataclass(frozen=True)
class Proxy:
    """A proxy to measure."""

    name: str
    command: Callable[[str, Command], Command]
    """Gives the command for a front transport and the server's URL or command."""
    protocols: tuple[str, ...] = PROTOCOLS
    transports: tuple[tuple[str, str], ...] = SAME_TRANSPORT
    """Supported pairs of transports: in front of the proxy, and behind it."""
    goals: dict[str, float] = field(default_factory=dict)
    """The largest acceptable ratio to a direct call, by the transport in front."""


OURS = Proxy(
    "surehand",
    lambda front, behind: (sys.executable, "-P", _script_path("mcp_proxy_server.py"), front, *behind),
    goals=MAX_RATIO_BY_FRONT,
)


def _script_path(name: str) -> str:
    return str(Path(__file__).with_name(name))


async def measure_own_proxy(*, rounds: int = 31, count: int = 64) -> list[Row]:
    """Measure surehand as a proxy."""
    return await measure_proxies([OURS], rounds, count)


async def measure_other_proxies(*, rounds: int = 7, count: int = 32) -> list[Row]:
    """Measure other projects' proxies, and ours between mixed transports for comparison with mcp-proxy."""
    from bench.peers.environments import environment

    fastmcp, mcp_proxy = environment("fastmcp"), environment("mcp-proxy")
    script = str(ROOT / "bench/peers/fastmcp_proxy.py")
    proxies = [
        Proxy(
            f"fastmcp {await _installed_version(fastmcp, 'fastmcp')} create_proxy, {description}",
            lambda front, behind, sessions=sessions: (str(fastmcp), "-P", script, front, sessions, *behind),
        )
        for sessions, description in (("shared", "one session behind"), ("fresh", "as it comes"))
    ]
    proxies += [
        Proxy(
            f"mcp-proxy {await _installed_version(mcp_proxy, 'mcp-proxy')}",
            partial(_mcp_proxy_command, mcp_proxy),
            PROTOCOLS[:1],
            MIXED_TRANSPORTS,
        ),
        Proxy(f"surehand {version('surehand')}", OURS.command, PROTOCOLS[:1], MIXED_TRANSPORTS),
    ]
    return await measure_proxies(proxies, rounds, count)


def _mcp_proxy_command(python: Path, front: str, behind: Command) -> Command:
    program = str(python.with_name("mcp-proxy"))
    if front == "stdio":
        return (program, "--log-level", "ERROR", "--transport", "streamablehttp", *behind)
    return (program, "--log-level", "ERROR", "--port", PORT_PLACEHOLDER, "--", *behind)


PORT_PLACEHOLDER = "PORT"
"""Replaced by a free port in the command of a proxy that does not print its port."""


async def _installed_version(python: Path, name: str) -> str:
    program = f"import importlib.metadata as m; print(m.version({name!r}))"
    process = await asyncio.create_subprocess_exec(str(python), "-c", program, stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0].decode().strip()


async def measure_proxies(proxies: Iterable[Proxy], rounds: int, count: int) -> list[Row]:
    rows: list[Row] = []
    async with start_http_server() as url:
        for proxy in proxies:
            for front, behind in proxy.transports:
                for protocol in proxy.protocols:
                    rows += await _measure_proxy(proxy, front, behind, protocol, url, rounds, count)
    return rows


async def _measure_proxy(
    proxy: Proxy, front: str, behind: str, protocol: str, url: str, rounds: int, count: int
) -> list[Row]:
    command = proxy.command(front, (url,) if behind == "http" else STDIO_SERVER)
    async with AsyncExitStack() as stack:
        through = await stack.enter_async_context(_start_client(front, command, protocol))
        directly = _start_client(front, STDIO_SERVER, protocol) if front == "stdio" else _connect(url, protocol)
        limit = await stack.enter_async_context(directly)
        calls = [partial(each.call_tool, "add", ARGUMENTS) for each in (through, limit)]
        for call in calls:
            assert (await call()).structured_content == {"result": 3}
        one = await measure_ratio(*(time_calls(call, count=count) for call in calls), rounds=rounds)
        many = await measure_ratio(*(time_concurrent_calls(call, count=count) for call in calls), rounds=rounds)
    connection = f"{front} in front and {behind} behind, {protocol}".replace("http", "HTTP")
    prefix = f"{proxy.name}: " if proxy is not OURS else ""
    goal = proxy.goals.get(front)
    note = "" if goal else "for information"
    return [
        Row(f"{prefix}call through an MCP proxy, {connection} / the same call direct", one, goal, note=note),
        Row(
            f"{prefix}{MAX_IN_FLIGHT} calls in flight through an MCP proxy, {connection} / direct",
            many,
            goal,
            note=note,
        ),
    ]


@asynccontextmanager
async def _start_client(front: str, command: Command, protocol: str) -> AsyncIterator[Client]:
    """Start a command and connect a client to it."""
    from mcp import Client, StdioServerParameters

    if front == "stdio":
        async with Client(StdioServerParameters(command=command[0], args=list(command[1:])), mode=protocol) as client:
            yield client
    else:
        async with _start_http(command) as url, _connect(url, protocol) as client:
            yield client


def _connect(url: str, protocol: str) -> Client:
    from mcp import Client

    return Client(url, mode=protocol)


@asynccontextmanager
async def _start_http(command: Command) -> AsyncIterator[str]:
    """Start a command that serves HTTP; gives its URL. It prints its port, or its arguments contain the placeholder."""
    port = _free_port() if PORT_PLACEHOLDER in command else 0
    argv = [str(port) if word == PORT_PLACEHOLDER else word for word in command]
    stderr = asyncio.subprocess.DEVNULL if port else None  # mcp-proxy logs errors when it is terminated
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE, stderr=stderr)
    assert process.stdout is not None
    try:
        if port:
            await _wait_until_open(port)
        yield f"http://127.0.0.1:{port or int(await process.stdout.readline())}/mcp"
    finally:
        process.terminate()
        await process.communicate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def _wait_until_open(port: int) -> None:
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
    from bench.table import format_table

    benchmarks: Any = {"ours": measure_own_proxy, "others": measure_other_proxies}
    for name in sys.argv[1:] or benchmarks:
        print(format_table(asyncio.run(benchmarks[name]())))
