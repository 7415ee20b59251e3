"""The limits of an MCP call: `tool_timeout`, the server's own limits, and the limit on silence."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from surehand import Done, Runtime, mcp
from surehand.assemble import assemble
from surehand.config.config import read_config
from tests.providers.mcp.conftest import Silence
from tests.providers.mcp.steady_server import PEER, SteadyServer


def entry(server: SteadyServer, **keys: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", str(PEER), str(server.folder)], "manifest": False, **keys}


STEPS = {"count": 1_000, "seconds": 0.02}
"""Twenty seconds of steady progress."""


async def test_the_tool_timeout_of_the_runtime_bounds_an_mcp_call_whatever_progress_it_reports(
    server: SteadyServer,
) -> None:
    async with Runtime(server.provider(), defaults={"tool_timeout": 0.3}) as runtime:
        outcome = await runtime.call("steady__steps", STEPS)

    assert (outcome.code, outcome.message) == ("timed_out", "steady__steps timed out after 0.3 s.")


async def test_request_timeout_ms_bounds_an_mcp_call_whatever_progress_it_reports(server: SteadyServer) -> None:
    [provider] = mcp.servers({"mcpServers": {"steady": entry(server, requestTimeoutMs=300)}})

    async with Runtime(provider) as runtime:
        outcome = await runtime.call("steady__steps", STEPS)

    assert (outcome.code, outcome.message) == ("timed_out", "steady__steps timed out after 0.3 s.")


@pytest.mark.parametrize(("tool_timeout", "request_timeout"), [(300, 60_000), (60_000, 300)])
async def test_of_tool_timeout_and_request_timeout_ms_the_smaller_wins(
    server: SteadyServer, tmp_path: Path, tool_timeout: int, request_timeout: int
) -> None:
    servers = {"steady": entry(server, requestTimeoutMs=request_timeout)}
    file = tmp_path / "surehand.json"
    file.write_text(json.dumps({"defaults": {"toolTimeout": tool_timeout}, "policy": [], "mcpServers": servers}))

    async with assemble(read_config(file)) as runtime:
        outcome = await runtime.call("steady__steps", STEPS)

    assert (outcome.code, outcome.message) == ("timed_out", "steady__steps timed out after 0.3 s.")


async def test_only_the_limit_on_silence_is_extended_by_progress(server: SteadyServer, silence: Silence) -> None:
    def advance(event: object) -> None:
        silence.seconds += 0.9

    async with Runtime(server.provider(timeout=1.0)) as runtime:
        runtime.listen(advance)
        outcome = await runtime.call("steady__steps", {"count": 5, "seconds": 0.001})

    assert silence.seconds > 4
    assert outcome == Done("stepped")


async def test_the_built_in_tool_timeout_does_not_shorten_what_a_server_was_given(server: SteadyServer) -> None:
    provider = server.provider(total=600)

    async with Runtime(provider) as runtime:
        assert runtime.defaults.tool_timeout == 30
        assert runtime.defaults.given_tool_timeout is None
        assert (await runtime.call("steady__echo", {"text": "x"})).ok
