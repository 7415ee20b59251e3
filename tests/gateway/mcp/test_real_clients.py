"""Clients of other projects: the MCP SDK, the Inspector, and agent frameworks."""

import asyncio
import json
import os
import re
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from surehand import Runtime, gateway
from tests import node_packages
from tests.gateway.mcp.clients import observations, tools
from tests.gateway.mcp.clients.observations import Observations, Target
from tests.requirements import CLIENTS, INSPECTOR, needs

pytestmark = [pytest.mark.timeout(180), pytest.mark.long]  # a client may take seconds to start on a busy machine

CLIENTS_FOLDER = Path(__file__).parent / "clients"
SERVER = [str(Path(sys.executable).parent / "surehand"), "mcp", "--tools", str(CLIENTS_FOLDER / "tools.py")]
HANDSHAKE, MODERN = "legacy", "2026-07-28"
TOOLS = {
    "add": "Add two numbers.",
    "bake": "Bake a cake, which takes its time.",
    "count": "Count aloud.",
    "delete": "Delete a file.",
    "look_up": "Look a word up in a dictionary.",
}
UNKNOWN = "There is no word 'xyzzy' here."
EXPECTED_OBSERVATIONS: Observations = {
    "tools": TOOLS,
    "added": ["3", {"result": 3}],
    "counted": "counted",
    "reports": [[50, 100, "now 1"], [100, 100, "now 2"]],
    "failed": UNKNOWN,
    "accepted": "deleted old.txt",
    "declined": "the call was rejected by the user. Do not repeat it unless asked to.",
}
"""What every client observes, over every transport and in both protocol versions."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of the HTTP server that all tests of this module share."""
    process = subprocess.Popen([*SERVER, "--http", "--port", "0"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        [url] = re.findall(r"http://\S+", process.stderr.readline())
        yield url
    finally:
        process.kill()
        process.communicate()


async def output(*command: str, code: int = 0, **options: Any) -> Any:
    """The JSON that a command prints; the command must exit with `code`."""
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE, **options)
    printed, errors = await process.communicate()
    assert process.returncode == code, f"{' '.join(command)}: {errors.decode()[-4000:]}"
    return json.loads(printed)


def make_connections(connections: Iterable[tuple[str, str]], **targets: Any) -> dict[str, tuple[Any, str]]:
    """Each connection by its name: its target and its protocol version."""
    return {f"{transport}, {protocol}": (targets[transport], protocol) for transport, protocol in connections}


# The MCP SDK


async def observe_with_sdk(target: Any, protocol: str) -> Observations:
    """What the MCP SDK's client observes; the target may also be a server in memory."""
    from mcp import Client, StdioServerParameters
    from mcp.types import ElicitResult

    reports: list[list[Any]] = []

    async def answer_elicitation(_: object, params: Any) -> ElicitResult:
        action = observations.answer(params.message)
        return ElicitResult(action=action, content={} if action == "accept" else None)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append([progress, total, message])

    reached = StdioServerParameters(command=target[0], args=target[1:]) if isinstance(target, list) else target
    async with Client(reached, mode=protocol, elicitation_callback=answer_elicitation) as client:
        tools = {each.name: each.description for each in (await client.list_tools()).tools}
        added = await client.call_tool("add", {"a": 1, "b": 2})
        counted = await client.call_tool("count", {"to": 2}, progress_callback=report)
        failed = await client.call_tool("look_up", {"word": "xyzzy"})
        accepted = await client.call_tool("delete", {"file": "old.txt"})
        declined = await client.call_tool("delete", {"file": "new.txt"})
    return {
        "tools": tools,
        "added": [added.content[0].text, added.structured_content],
        "counted": counted.content[0].text,
        "reports": reports,
        "failed": failed.content[0].text if failed.is_error else None,
        "accepted": accepted.content[0].text,
        "declined": declined.content[0].text if declined.is_error else None,
    }


async def test_the_sdk_client_reaches_the_tools_over_every_transport_in_both_protocols(url: str):
    async with Runtime(tools) as runtime:
        connections = make_connections(
            product(("memory", "stdio", "http"), (HANDSHAKE, MODERN)),
            memory=gateway.mcp.server(runtime),
            stdio=SERVER,
            http=url,
        )
        seen = await observations.observe(observe_with_sdk, connections)

    assert seen == dict.fromkeys(connections, EXPECTED_OBSERVATIONS)


# Frameworks, in environments of their own


@needs("clients")
async def test_fastmcp_reaches_the_tools(url: str):
    connections = make_connections([("stdio", MODERN), ("http", HANDSHAKE), ("http", MODERN)], stdio=SERVER, http=url)

    assert await observe_with_framework("newer/fastmcp", connections) == dict.fromkeys(
        connections, EXPECTED_OBSERVATIONS
    )


@needs("clients")
async def test_an_agent_of_pydantic_ai_uses_the_tools(url: str):
    connections = make_connections(
        [("stdio", HANDSHAKE), ("http", HANDSHAKE), ("http", MODERN)], stdio=SERVER, http=url
    )
    differences = {
        "added": 3,
        "failed": ["retried", UNKNOWN],
        "declined": ["retried", EXPECTED_OBSERVATIONS["declined"]],
    }

    assert await observe_with_framework("newer/pydantic_ai", connections) == dict.fromkeys(
        connections, EXPECTED_OBSERVATIONS | differences
    )


@needs("clients")
async def test_langchain_uses_the_tools(url: str):
    connections = make_connections([("stdio", HANDSHAKE), ("http", HANDSHAKE)], stdio=SERVER, http=url)

    assert await observe_with_framework("older/langchain", connections) == dict.fromkeys(
        connections, EXPECTED_OBSERVATIONS
    )


async def observe_with_framework(name: str, connections: dict[str, tuple[Any, str]]) -> dict[str, Observations]:
    """What the client of a framework observes."""
    environment, _, client = name.partition("/")
    python, script = CLIENTS / environment / "bin/python", CLIENTS_FOLDER / f"{client}_client.py"
    return await output(str(python), str(script), json.dumps(connections))


# The Inspector's command line


@needs("inspector")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_inspector_lists_and_calls_the_tools(url: str, era: str, tmp_path: Path):
    inspect = partial(inspected, tmp_path, era)
    add = ("tools/call", "--tool-name", "add", "--tool-arg", "a=1", "b=2")

    listed, added, unknown = await asyncio.gather(
        inspect(url, "tools/list", "--strict"),  # it would complain of a schema that not every model understands
        inspect(SERVER if era == "legacy" else url, *add),
        inspect(url, "tools/call", "--tool-name", "look_up", "--tool-arg", "word=xyzzy", code=TOOL_FAILED),
    )

    assert {each["name"]: each["description"] for each in listed["tools"]} == TOOLS
    assert (added["content"], added["structuredContent"]) == ([{"type": "text", "text": "3"}], {"result": 3})
    assert unknown["content"][0]["text"] == UNKNOWN


@needs("inspector")
async def test_the_inspector_cannot_ask_and_gets_a_task_that_is_approved_elsewhere(tmp_path: Path):
    store = str(tmp_path / "calls.db")
    async with Runtime(store=store) as elsewhere, asyncio.TaskGroup() as group:
        delete = ("tools/call", "--tool-name", "delete", "--tool-arg", "file=old.txt")
        inspection = group.create_task(inspected(tmp_path, "modern", [*SERVER, "--store", store], *delete))
        await elsewhere.approve(await first_waiting(elsewhere))
        deleted = await inspection

    assert deleted["content"] == [{"type": "text", "text": "deleted old.txt"}]


async def first_waiting(runtime: Runtime) -> str:
    """The id of a call that another process makes, as soon as it waits."""
    for _ in range(1_200):
        if waiting := await runtime.pending():
            return waiting[0].call_id
        await asyncio.sleep(0.05)
    raise TimeoutError("no call waits")


async def inspected(home: Path, era: str, target: Target, *words: str, code: int = 0) -> Any:
    """The result of a method."""
    options = ["--connect-timeout", "0", "--protocol-era", era, "--format", "json", "--quiet", "--method", *words]
    command = [
        node_packages.node_path(),
        str(INSPECTOR),
        "--cli",
        *options,
        "--",
        *([target] if isinstance(target, str) else target),
    ]
    return (await output(*command, code=code, env={**os.environ, "HOME": str(home)}))["result"]


TOOL_FAILED = 5
"""How the Inspector ends when a tool says that it failed."""
