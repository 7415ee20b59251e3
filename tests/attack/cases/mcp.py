"""Attacks of MCP servers, web pages, HTTP clients and configuration files."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from surehand import Runtime, gateway, mcp, tool, web
from surehand.config.config import read_config
from surehand.config.errors import ConfigError
from surehand.core.sanitize import has_hidden_characters, strip_hidden
from tests.attack.runner import attack
from tests.providers.mcp.peers import FOLDER
from tests.providers.mcp.test_secrets import ENCODINGS, PLACES, SECRET, spellings

MAX_LOOP_LAG_SECONDS = 0.3


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@attack("mcp", "No secret of a server's env reaches a model or the log, in any place and encoding.", limit_seconds=600)
async def leak_secret_everywhere(folder: Path) -> str:
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("surehand")
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    pairs = list(product(PLACES, ENCODINGS))
    try:
        for place, encoding in pairs:
            records.clear()
            command = (sys.executable, "-S", str(FOLDER / "leaking_server.py"), place, encoding)
            server = mcp.stdio(*command, namespace="leaking", env={"API_TOKEN": SECRET}, manifest=False)
            seen: list[Any] = []
            async with Runtime(server) as runtime:
                runtime.listen(seen.append)
                outcome = await runtime.call("leaking__tell", {"x": "hello"})
                seen += [outcome, outcome.text, runtime.describe("anthropic"), runtime.instructions()]
            told = "\n".join([*map(repr, seen), *map(str, seen), *records]).lower()
            found = [spelling for spelling in spellings() if spelling.lower() in told]
            assert not found, f"{place} as {encoding}: {found}"
    finally:
        log.removeHandler(handler)
        log.propagate = True
    return f"{len(pairs)} ways to tell it"


@attack("mcp", "No character without ink is left between two letters of the Latin script.")
def hide_text_in_each_character(folder: Path) -> str:
    count = 0
    for code in range(0x110000):
        character = chr(code)
        if (
            unicodedata.category(character) not in ("Cc", "Cf", "Cn")
            or 0x600 <= code <= 0x8FF
            or code in (0x110BD, 0x110CD)
        ):
            continue  # signs of Arabic and Kaithi have ink, although they are format characters
        if unicodedata.category(character) == "Cn" and not (0xE0000 <= code <= 0xE0FFF or 0xFFF0 <= code <= 0xFFF8):
            continue  # only those unassigned characters that Unicode says to ignore
        if 0x13430 <= code <= 0x1345F:
            continue  # joiners of hieroglyphs are drawn
        count += 1
        seen = strip_hidden(f"a{character}b{character}{character}c")
        assert not has_hidden_characters(seen.translate({9: " ", 10: " "})), f"U+{code:04X}: {seen!r}"
    return f"{count} characters"


@asynccontextmanager
async def worst_lag() -> AsyncIterator[list[float]]:
    """The longest time for which the event loop did not run another task."""
    worst = [0.0]

    async def measure() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            worst[0] = max(worst[0], time.perf_counter() - before)

    task = asyncio.create_task(measure())
    try:
        yield worst
    finally:
        task.cancel()


async def fetch_from(payload: bytes, *, is_endless: bool) -> tuple[str, float]:
    """What `webfetch` says about a server that sends these bytes, and how long the event loop stood still."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        try:
            writer.write(payload)
            while is_endless:
                await writer.drain()
                writer.write(payload)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with Runtime(web(allow_private=True, ports="any")) as runtime, worst_lag() as lag:
            outcome = await runtime.call("webfetch", {"url": f"http://127.0.0.1:{port}/"}, timeout=30)
            return outcome.text, lag[0]


@attack("http", "Informational responses without end are refused, and other tasks run meanwhile.")
async def send_endless_informational_responses(folder: Path) -> str:
    text, lag = await fetch_from(b"HTTP/1.1 100 \r\n\r\n" * 20_000, is_endless=True)
    assert "bytes of headers" in text, text
    assert lag < MAX_LOOP_LAG_SECONDS, f"the loop stood still for {lag:.2f} s"
    return f"longest turn of the loop {lag * 1000:.0f} ms"


@attack("http", "A request with two lengths is refused and its connection closed, in every server.")
async def smuggle_a_request(folder: Path) -> str:
    call = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
    names = (b"Transfer-Encoding", b"transfer-encoding", b"TRANSFER-ENCODING")
    codings = (b"chunked", b"Chunked", b"chunked ", b"gzip, chunked", b"identity", b"xchunked")
    count = 0
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it warns of each of these
    async with Runtime(add) as runtime:
        for parser in ("h11", "httptools"):
            server = uvicorn.Server(uvicorn.Config(gateway.mcp.app(runtime), http=parser, port=0, log_config=None))
            serving = asyncio.create_task(server.serve())
            while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.01)
            host, port = server.servers[0].sockets[0].getsockname()
            for name, coding, is_first in product(names, codings, (True, False)):
                lengths = [b"Content-Length: 2", name + b": " + coding]
                head = b"\r\n".join([b"POST /mcp HTTP/1.1", b"Host: localhost", *lengths[:: 1 if is_first else -1]])
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(head + b"\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + call)
                answer = await asyncio.wait_for(reader.read(), 10)
                writer.close()
                assert answer.startswith(b"HTTP/1.1 4"), f"{parser}, {lengths}: {answer[:80]!r}"
                assert answer.count(b"HTTP/1.1 ") == 1, f"{parser}, {lengths}: a second request was answered"
                count += 1
            server.should_exit = True
            await serving
    return f"{count} requests"


@attack("config", "No YAML file of a few lines keeps the loader busy.")
def expand_yaml_anchors(folder: Path) -> str:
    lines = {
        "merge keys": ("a0: &a0 {k: 1}", "a{n}: &a{n} {{<<: [{all}]}}"),
        "mappings": ("a0: &a0 {k: 1}", "a{n}: &a{n} {{x: {last}, y: {last}}}"),
        "lists": ("a0: &a0 [x]", "a{n}: &a{n} [{all}]"),
    }
    worst = 0.0
    for width, (first, line) in product((2, 5, 20), lines.values()):
        rows = [line.format(n=n, last=f"*a{n - 1}", all=", ".join([f"*a{n - 1}"] * width)) for n in range(1, 200)]
        path = folder / "surehand.yaml"
        path.write_text("\n".join([first, *rows]))
        started_at = time.monotonic()
        with pytest.raises(ConfigError, match="100,000 values"):
            read_config(path)
        worst = max(worst, time.monotonic() - started_at)
    assert worst < 2, f"it took {worst:.1f} s"
    return f"at most {worst * 1000:.0f} ms"
