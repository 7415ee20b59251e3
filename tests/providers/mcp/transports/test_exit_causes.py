"""Why a server did not start: its own cause is named in the error of a call, with what to do about it."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from surehand import Runtime, mcp
from surehand.providers.mcp.transports.exit_causes import describe_exit_cause


async def failure(*command: str, **options: object) -> str:
    """What a call to a server that does not start says."""
    provider = mcp.stdio(*command, namespace="broken", manifest=False, **options)  # type: ignore[arg-type]
    async with Runtime(provider) as runtime:
        outcome = await runtime.call("broken__anything")
    assert outcome.code == "unavailable"
    return outcome.message


async def test_a_command_that_is_not_found_is_named() -> None:
    assert "the command 'no-such-server-anywhere' is not found. Fix: install it" in await failure(
        "no-such-server-anywhere"
    )


async def test_a_command_that_the_server_itself_does_not_find_is_named() -> None:
    assert "A command that it runs is not found: install it" in await failure("sh", "-c", "no-such-command-anywhere")


async def test_a_variable_that_is_not_set_is_named() -> None:
    [provider] = mcp.servers({"mcpServers": {"broken": {"command": "x", "env": {"A": "${NO_SUCH_VARIABLE}"}}}})

    async with Runtime(provider) as runtime:
        message = (await runtime.call("broken__anything")).message

    assert "the environment variable NO_SUCH_VARIABLE is not set" in message


async def test_a_variable_that_the_server_misses_is_named() -> None:
    message = await failure(sys.executable, "-c", "import os; os.environ['ACME_API_KEY']")

    assert "The environment variable ACME_API_KEY is missing: set it under `env` of the server." in message


async def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = await failure(sys.executable, "-c", f"import socket; socket.create_server(('127.0.0.1', {port}))")

    assert "The port that it wants is in use: stop the program that listens there" in message


async def test_a_missing_permission_is_named(tmp_path: Path) -> None:
    script = tmp_path / "server"
    script.write_text("#!/bin/sh\n")

    assert "is not executable (permission denied). Fix: make it executable" in await failure(str(script))
    assert "It lacks a permission" in await failure("sh", "-c", f"exec {script}")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("Error: listen EADDRINUSE: address already in use :::3000", "port"),
        ("ERROR: [Errno 98] error while attempting to bind on address: address already in use", "port"),
        ("Error: EACCES: permission denied, open '/etc/shadow'", "permission"),
        ("PermissionError: [Errno 13] Permission denied: '/data'", "permission"),
        ("bwrap: execvp npx: No such file or directory", "not found"),
        ("Error: spawn npx ENOENT", "not found"),
        ("GITHUB_PERSONAL_ACCESS_TOKEN not set", "GITHUB_PERSONAL_ACCESS_TOKEN"),
        ("Error: BRAVE_API_KEY environment variable is required", "BRAVE_API_KEY"),
        ("Missing required environment variable: SLACK_BOT_TOKEN", "SLACK_BOT_TOKEN"),
        ("KeyError: 'API_KEY'", "API_KEY"),
    ],
)
def test_the_lines_of_common_servers_are_understood(line: str, cause: str) -> None:
    assert cause in describe_exit_cause(1, ["Starting.", line, "    at node:internal"])


@pytest.mark.parametrize("line", ["", "Traceback (most recent call last):", "ValueError: bad", "HTTP_PORT=80 ready"])
def test_other_lines_name_no_cause(line: str) -> None:
    assert describe_exit_cause(1, [line]) == ""
