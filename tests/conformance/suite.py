"""The official suite. It plays a server to our client, or a client to our server, and looks at every message.

With a client, it starts a server for each scenario and a client for each server. Those are all run in this one process:
what the suite starts is a short script that hands the scenario over, so that dozens of them cost one start of Python
and no more than a few run at once. A server is one for all scenarios, which come one after the other.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.node import SUITE, node

ROOT = Path(__file__).parents[2]
CLIENT = Path(__file__).with_name("client.sh")
AT_ONCE = 6
PATIENCE = 60.0
"""Seconds for one scenario; the suite's own limit would count the time that a client waits for its turn."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the suite tells a client."""

    scenario: str
    version: str
    context: dict[str, Any]
    url: str


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that the suite has looked at, and what it says of it."""

    name: str
    status: str
    message: str


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one scenario."""

    scenario: str
    version: str
    checks: tuple[Check, ...]
    said: str = ""
    """What our client had to say."""
    wrong: bool = False
    """Whether it ended with an error."""
    again: bool = False
    """Whether it was run a second time, as the first was not to be relied on."""

    def count(self, status: str) -> int:
        return sum(check.status == status for check in self.checks)

    @property
    def ok(self) -> bool:
        # A client that does nothing fails no check, so there has to be one that it passed.
        return self.count("SUCCESS") > 0 and not (self.count("FAILURE") or self.count("WARNING") or self.wrong)


Client = Callable[[Given], Awaitable[str]]
"""Plays the client of one scenario, and says how it went; what it raises is a client that ends with an error."""


async def run(client: Client, *arguments: str, version: str) -> list[Result]:
    """Run the scenarios that these arguments of the suite choose."""
    ended: dict[str, _End] = {}
    with TemporaryDirectory(prefix="surehand-conformance-") as folder:
        async with await asyncio.start_server(_player(client, ended), "127.0.0.1") as server:
            port = server.sockets[0].getsockname()[1]
            command = ["client", "--command", str(CLIENT), "--timeout", "300000", "-o", folder, *arguments]
            await _node(command, SUREHAND_CONFORMANCE_PORT=str(port))
        return sorted(_results(Path(folder), version, ended), key=lambda result: result.scenario)


async def examine(url: str, *arguments: str, version: str) -> list[Result]:
    """Run the scenarios that these arguments of the suite choose with the server at this address."""
    with TemporaryDirectory(prefix="surehand-conformance-") as folder:
        await _node(["server", "--url", url, "-o", folder, *arguments])
        found = [_examined(place, version) for place in Path(folder).iterdir()]
        return sorted((result for result in found if result), key=lambda result: result.scenario)


@dataclass(frozen=True, slots=True)
class _End:
    said: str
    wrong: bool = False


def _player(
    client: Client, ended: dict[str, _End]
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    turns = asyncio.Semaphore(AT_ONCE)

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        scenario, version, context, url = [(await reader.readline()).decode().rstrip("\n") for _ in range(4)]
        async with turns:
            end = ended[scenario] = await _played(client, Given(scenario, version, json.loads(context) or {}, url))
        writer.write(f"{int(end.wrong)}\n{end.said}\n".encode())
        writer.close()

    return play


async def _played(client: Client, given: Given) -> _End:
    try:
        async with asyncio.timeout(PATIENCE):
            return _End(await client(given))
    except Exception as error:  # noqa: BLE001 - the suite is to see it as a client that failed, and go on
        return _End(f"{type(error).__name__}: {error}", wrong=True)


async def _node(arguments: Sequence[str], **surroundings: str) -> None:
    around = {**os.environ, **surroundings, "NODE_NO_WARNINGS": "1"}
    process = await asyncio.create_subprocess_exec(
        node(), SUITE, *arguments, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=around, cwd=ROOT
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    # 1 is a scenario that failed, and the results say which.
    if process.returncode not in (0, 1) or b"Unknown suite" in errors:
        raise RuntimeError(f"the suite ended with {process.returncode}: {(output + errors).decode()[-2000:]}")


def _results(folder: Path, version: str, ended: dict[str, _End]) -> Iterator[Result]:
    for file in folder.rglob("checks.json"):
        scenario = _scenario(str(file.parent.relative_to(folder)))
        end = ended.get(scenario, _End("It was not started.", wrong=True))
        yield Result(scenario, version, _checks(file), end.said, end.wrong)


def _examined(place: Path, version: str) -> Result | None:
    scenario, file = _scenario(place.name).removeprefix("server-"), place / "checks.json"
    if not file.exists():  # the folder is made first, and the checks are written at the end
        return Result(scenario, version, (), "The suite did not come to an end with it.", wrong=True)
    checks = _checks(file)
    # A scenario may be there and look at nothing yet.
    return Result(scenario, version, checks) if any(check.status != "SKIPPED" for check in checks) else None


def _scenario(folder: str) -> str:
    return re.sub(r"-\d{4}-\d\d-\d\dT[\dZ-]+$", "", folder)


def _checks(file: Path) -> tuple[Check, ...]:
    return tuple(_check(each) for each in json.loads(file.read_text(encoding="utf-8")))


def _check(found: dict[str, Any]) -> Check:
    return Check(found["id"], found["status"], found.get("errorMessage") or found.get("description") or "")
