"""`cache` and `tools_cache` of a server: for which tools they hold, and who is told where they do not."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from surehand import Runtime
from surehand.cli.main import main
from tests.providers.mcp.steady_server import PEER, SteadyServer, tool_definition

READ = {"readOnlyHint": True}


def effect(name: str = "effect", **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": "Leave a trace.", "inputSchema": schema, **more}


async def call_twice(server: SteadyServer, **options: Any) -> int:
    """How often the server was reached by two equal calls of `effect`."""
    async with Runtime(server.provider(**options)) as runtime:
        for _ in range(2):
            assert (await runtime.call("steady__effect", {"text": "x"})).ok
    return len(server.effects)


async def test_the_cache_of_a_server_applies_to_a_tool_marked_read_only(server: SteadyServer) -> None:
    server.set_tools(effect(annotations=READ))

    assert await call_twice(server, cache="5m") == 1


async def test_the_cache_of_a_server_applies_to_a_tool_declared_read_only(server: SteadyServer) -> None:
    server.set_tools(effect())

    assert await call_twice(server, cache="5m", effects={"effect": ["read"]}) == 1


async def test_the_cache_of_a_server_applies_to_no_other_tool_and_the_start_warns(
    server: SteadyServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.set_tools(effect(), tool_definition("look", annotations=READ))

    assert await call_twice(server, cache="5m") == 2
    [record] = [each for each in caplog.records if "cache" in each.message]
    assert record.levelno == logging.WARNING
    assert record.message == (
        "The cache of steady has no effect on some tools. effect: the server does not mark it read-only; "
        "declare `read` for it in `effects`, or name it in `tools_cache`."
    )


async def test_tools_cache_applies_to_the_tools_that_it_names(
    server: SteadyServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.set_tools(effect())

    assert await call_twice(server, tools_cache={"effect": "5m"}) == 1
    assert not [each for each in caplog.records if "cache" in each.message]


async def test_a_wildcard_of_tools_cache_applies_to_read_only_tools_alone_and_the_start_warns(
    server: SteadyServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.set_tools(effect())

    assert await call_twice(server, tools_cache={"eff*": "5m"}) == 2
    assert "effect: the server does not mark it read-only" in caplog.text
    assert "without a wildcard" in caplog.text


async def test_a_rule_that_contradicts_the_declared_effects_or_names_no_tool_is_warned_of(
    server: SteadyServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.set_tools(effect())

    assert await call_twice(server, tools_cache={"effect": "5m", "gone": "5m"}, effects=["write"]) == 2
    assert "effect: its declared effects are write, and only read-only tools are cached." in caplog.text
    assert "gone: the server offers no such tool." in caplog.text


def test_doctor_says_for_which_tools_a_cache_has_no_effect_and_why(
    server: SteadyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.set_tools(effect())
    entry = {"command": sys.executable, "args": ["-I", "-S", str(PEER), str(server.folder)], "cache": "5m"}
    (tmp_path / "surehand.json").write_text(json.dumps({"mcpServers": {"steady": entry}}))
    monkeypatch.chdir(tmp_path)

    with pytest.raises(SystemExit):
        main(["doctor", "steady", "--json"])

    findings = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [warned] = [each for each in findings if each["status"] == "warn"]
    assert "its cache has no effect on some tools. effect: the server does not mark it read-only" in warned["message"]
