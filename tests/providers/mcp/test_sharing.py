"""`shared` servers, and the transport that `transport: sse` uses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from surehand import Runtime, mcp
from surehand.assemble import assemble
from surehand.config.config import read_config
from tests.providers.mcp.peers import friendly_http_server
from tests.providers.mcp.steady_server import PEER, SteadyServer


async def pids(runtime: Runtime) -> set[str]:
    scopes = [runtime, *(runtime.scope(user=user, session=f"{user}-{n}") for user in ("anna", "ben") for n in (1, 2))]
    return {str((await scope.call("steady__pid")).unwrap()) for scope in scopes}


@pytest.mark.parametrize(("keys", "processes"), [({"shared": True}, 1), ({"shared": False}, 5), ({}, 3)])
async def test_a_shared_server_is_one_process_for_all_users_and_sessions(
    server: SteadyServer, tmp_path: Path, keys: dict[str, bool], processes: int
) -> None:
    entry = {"command": sys.executable, "args": ["-I", "-S", str(PEER), str(server.folder)], "manifest": False, **keys}
    file = tmp_path / "surehand.json"
    file.write_text(json.dumps({"policy": [], "mcpServers": {"steady": entry}}))

    async with assemble(read_config(file)) as runtime:
        assert len(await pids(runtime)) == processes
    assert server.starts == processes


async def test_a_shared_server_is_shared_by_two_runtimes_that_are_given_it(server: SteadyServer) -> None:
    provider = server.provider(per="everyone")

    async with Runtime(provider) as one, Runtime(provider) as other:
        assert len(await pids(one) | await pids(other)) == 1


async def test_transport_sse_tries_streamable_http_first() -> None:
    async with friendly_http_server("streamable-http") as port:
        entry = {"url": f"http://127.0.0.1:{port}/mcp", "transport": "sse", "manifest": False}
        async with Runtime(*mcp.servers({"mcpServers": {"web": entry}})) as runtime:
            assert (await runtime.call("web__echo", {"text": "hello"})).ok


async def test_transport_sse_falls_back_to_sse() -> None:
    async with friendly_http_server("sse") as port:
        entry = {"url": f"http://127.0.0.1:{port}/sse", "transport": "sse", "manifest": False}
        async with Runtime(*mcp.servers({"mcpServers": {"web": entry}})) as runtime:
            assert (await runtime.call("web__echo", {"text": "hello"})).ok
