"""`traceMCP`: the messages of MCP servers in the log, with secrets masked."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest

from surehand import Done, Runtime, mcp
from surehand.assemble import assemble
from surehand.config.config import read_config
from tests.providers.mcp.peers import friendly_http_server
from tests.providers.mcp.steady_server import PEER, SteadyServer


def traced(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    records = [record for record in caplog.records if record.name == f"surehand.mcp.{name}"]
    return [record.message for record in records if record.message.startswith(("sent {", "received {"))]


async def test_trace_mcp_logs_messages_to_the_servers_logger_at_debug(
    steady: SteadyServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="surehand.mcp.steady")

    async with Runtime(steady.provider(), defaults={"trace_mcp": True}) as runtime:
        assert await runtime.call("steady__echo", {"text": "hello"}) == Done("hello")

    lines = traced(caplog, "steady")
    assert any(line.startswith("sent ") and '"tools/call"' in line and '"hello"' in line for line in lines)
    assert any(line.startswith("received ") and '"hello"' in line for line in lines)


async def test_the_trace_masks_secrets(
    server: SteadyServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, logger="surehand.mcp.steady")
    monkeypatch.setenv("MY_VALUE", "open-sesame")
    entry = {
        "command": sys.executable,
        "args": ["-I", "-S", str(PEER), str(server.folder)],
        "env": {"WORD": "${MY_VALUE}"},
        "manifest": False,
    }
    file = tmp_path / "surehand.json"
    file.write_text(json.dumps({"defaults": {"traceMCP": True}, "policy": [], "mcpServers": {"steady": entry}}))

    async with assemble(read_config(file)) as runtime:
        assert (await runtime.call("steady__environment", {"name": "WORD"})).data == "open-sesame"
        await runtime.call("steady__echo", {"text": "ghp_0123456789abcdef and api_key=hunter2hunter2"})

    lines = "\n".join(traced(caplog, "steady"))
    assert '"text":"[redacted]"' in lines
    assert "and api_key=***" in lines
    assert not any(secret in lines for secret in ("open-sesame", "ghp_0123456789abcdef", "hunter2"))


@pytest.mark.parametrize("kind", ["streamable-http", "sse", "websocket"])
async def test_every_transport_can_be_traced(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="surehand.mcp.web")
    async with friendly_http_server(kind) as port:
        make, path = {
            "streamable-http": (mcp.http, "http://127.0.0.1:{}/mcp"),
            "sse": (mcp.sse, "http://127.0.0.1:{}/sse"),
            "websocket": (mcp.websocket, "ws://127.0.0.1:{}/"),
        }[kind]
        async with Runtime(make(path.format(port), namespace="web", manifest=False, trace=True)) as runtime:
            assert (await runtime.call("web__echo", {"text": "hello"})).ok

    assert any('"tools/call"' in line for line in traced(caplog, "web"))
    assert any(line.startswith("received ") and "hello" in line for line in traced(caplog, "web"))


async def test_without_the_switch_no_message_is_logged(server: SteadyServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="surehand.mcp.steady")

    async with Runtime(server.provider()) as runtime:
        assert (await runtime.call("steady__echo", {"text": "hello"})).ok

    assert traced(caplog, "steady") == []
