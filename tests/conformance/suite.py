"""Runs the official MCP conformance suite, which acts as a server for our client, or as a client of our server.

For a client, the suite starts a server and a client process per scenario. All clients run in this one process: the
suite starts a short script that hands the scenario over, so that dozens of scenarios cost one start of Python, and only
a few run at once. A server under test is started once and gets all scenarios, one after the other.
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

from tests.node_packages import CONFORMANCE_SUITE, node_path

ROOT = Path(__file__).parents[2]
CLIENT_SCRIPT = Path(__file__).with_name("client.sh")
MAX_CONCURRENT_SCENARIOS = 6
SCENARIO_TIMEOUT_SECONDS = 60.0
"""Limit of one scenario. The suite's own limit would include the time that a client waits for a slot."""


@dataclass(frozen=True, slots=True)
class ScenarioInput:
    """The input that the suite gives to a client."""

    scenario: str
    version: str
    context: dict[str, Any]
    url: str


@dataclass(frozen=True, slots=True)
class Check:
    """One check of the suite, with its status."""

    name: str
    status: str
    message: str


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one scenario."""

    scenario: str
    version: str
    checks: tuple[Check, ...]
    message: str = ""
    """The final message of our client."""
    is_error: bool = False
    """Whether the client ended with an error."""
    second_run: bool = False
    """Whether this is the result of a second run, after a timing-sensitive failure."""

    def count(self, status: str) -> int:
        return sum(check.status == status for check in self.checks)

    @property
    def ok(self) -> bool:
        # A client that does nothing fails no check, so at least one check must have passed.
        return self.count("SUCCESS") > 0 and not (self.count("FAILURE") or self.count("WARNING") or self.is_error)


Client = Callable[[ScenarioInput], Awaitable[str]]
"""Plays the client of one scenario and returns a message; an exception means a client that ends with an error."""


async def run_client(client: Client, *arguments: str, version: str) -> list[Result]:
    """Run the client scenarios that these arguments of the suite select."""
    exits: dict[str, _ClientExit] = {}
    with TemporaryDirectory(prefix="surehand-conformance-") as folder:
        async with await asyncio.start_server(_make_player(client, exits), "127.0.0.1") as server:
            port = server.sockets[0].getsockname()[1]
            command = ["client", "--command", str(CLIENT_SCRIPT), "--timeout", "300000", "-o", folder, *arguments]
            await _run_suite(command, SUREHAND_CONFORMANCE_PORT=str(port))
        return sorted(_client_results(Path(folder), version, exits), key=lambda result: result.scenario)


async def run_server(url: str, *arguments: str, version: str) -> list[Result]:
    """Run the server scenarios that these arguments of the suite select, with the server at this URL."""
    with TemporaryDirectory(prefix="surehand-conformance-") as folder:
        await _run_suite(["server", "--url", url, "-o", folder, *arguments])
        results = [_server_result(scenario_folder, version) for scenario_folder in Path(folder).iterdir()]
        return sorted((result for result in results if result), key=lambda result: result.scenario)


@dataclass(frozen=True, slots=True)
class _ClientExit:
    message: str
    is_error: bool = False


def _make_player(
    client: Client, exits: dict[str, _ClientExit]
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    slots = asyncio.Semaphore(MAX_CONCURRENT_SCENARIOS)

    async def play_scenario(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        scenario, version, context, url = [(await reader.readline()).decode().rstrip("\n") for _ in range(4)]
        async with slots:
            client_exit = exits[scenario] = await _play(
                client, ScenarioInput(scenario, version, json.loads(context) or {}, url)
            )
        writer.write(f"{int(client_exit.is_error)}\n{client_exit.message}\n".encode())
        writer.close()

    return play_scenario


async def _play(client: Client, scenario_input: ScenarioInput) -> _ClientExit:
    try:
        async with asyncio.timeout(SCENARIO_TIMEOUT_SECONDS):
            return _ClientExit(await client(scenario_input))
    except Exception as error:  # noqa: BLE001 - the suite reports it as a client that failed, and continues
        return _ClientExit(f"{type(error).__name__}: {error}", is_error=True)


async def _run_suite(arguments: Sequence[str], **variables: str) -> None:
    environment = {**os.environ, **variables, "NODE_NO_WARNINGS": "1"}
    process = await asyncio.create_subprocess_exec(
        node_path(), CONFORMANCE_SUITE, *arguments, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environment, cwd=ROOT
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    # 1 means that a scenario failed; the results say which.
    if process.returncode not in (0, 1) or b"Unknown suite" in errors:
        raise RuntimeError(f"the suite ended with {process.returncode}: {(output + errors).decode()[-2000:]}")


def _client_results(folder: Path, version: str, exits: dict[str, _ClientExit]) -> Iterator[Result]:
    for file in folder.rglob("checks.json"):
        scenario = _scenario_name(str(file.parent.relative_to(folder)))
        client_exit = exits.get(scenario, _ClientExit("The client was not started.", is_error=True))
        yield Result(scenario, version, _read_checks(file), client_exit.message, client_exit.is_error)


def _server_result(scenario_folder: Path, version: str) -> Result | None:
    scenario, file = _scenario_name(scenario_folder.name).removeprefix("server-"), scenario_folder / "checks.json"
    if not file.exists():  # the suite creates the folder first and writes the checks at the end
        return Result(scenario, version, (), "The suite did not finish the scenario.", is_error=True)
    checks = _read_checks(file)
    # Some scenarios of the suite have no checks yet.
    return Result(scenario, version, checks) if any(check.status != "SKIPPED" for check in checks) else None


def _scenario_name(folder: str) -> str:
    return re.sub(r"-\d{4}-\d\d-\d\dT[\dZ-]+$", "", folder)


def _read_checks(file: Path) -> tuple[Check, ...]:
    return tuple(_parse_check(each) for each in json.loads(file.read_text(encoding="utf-8")))


def _parse_check(check: dict[str, Any]) -> Check:
    return Check(check["id"], check["status"], check.get("errorMessage") or check.get("description") or "")
