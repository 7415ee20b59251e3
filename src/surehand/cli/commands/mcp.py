"""`surehand mcp`: serve the tools as an MCP server, over stdio or HTTP."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from contextlib import ExitStack, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from surehand.cli.elicitation_form import is_yes_no_form
from surehand.cli.exit_codes import EXIT_USAGE, CommandExit
from surehand.cli.formatting import is_terminal, to_one_line
from surehand.cli.lifecycle import fastest_loop_factory, run_coroutine
from surehand.cli.options import RuntimeOptions, with_tools_and_store
from surehand.cli.outcome_output import question_arguments
from surehand.cli.serve_address import DEFAULT_HOST, DEFAULT_PATH, DEFAULT_PORT, ServeAddress
from surehand.cli.serving import (
    exit_on_serve_error,
    log_crashes,
    print_stderr,
    silence_library_logs,
    warn_without_store,
)
from surehand.config.config import find_config
from surehand.config.store_address import hide_password
from surehand.core.outcome import Pending
from surehand.runtime.runtime import Runtime

NO_STORE_WARNING = "No store: only clients that support elicitation can approve calls. Add --store calls.db"


@click.command("mcp")
@click.option("--http", "over_http", is_flag=True, help="Serve over HTTP instead of stdin and stdout.")
@click.option(
    "--host", metavar="ADDRESS", help=f"The address to listen on [{DEFAULT_HOST}]. Other machines need a token."
)
@click.option("--port", type=click.IntRange(0, 65535), help=f"The port [{DEFAULT_PORT}]; 0 picks a free one.")
@click.option("--path", metavar="PATH", help=f"The path of the endpoint [{DEFAULT_PATH}].")
@click.option("--token-env", metavar="NAME", help="The environment variable with the bearer token for clients.")
@click.option("--allow-host", "names", multiple=True, metavar="NAME", help="A further host name that clients may use.")
@click.option("--allow-origin", "origins", multiple=True, metavar="URL", help="An origin whose web pages may connect.")
@click.option("--toolset", metavar="NAME", help="Only tools of this toolset, or whose names match a glob.")
@click.option("--user", metavar="ID", help="The user of all calls.")
@click.option("--short-names", is_flag=True, help="Tool names without their namespace, where they stay unique.")
@with_tools_and_store
def command(
    runtime_options: RuntimeOptions,
    over_http: bool,
    host: str | None,
    port: int | None,
    path: str | None,
    token_env: str | None,
    names: tuple[str, ...],
    origins: tuple[str, ...],
    toolset: str | None,
    user: str | None,
    short_names: bool,
) -> None:
    """Serve the tools to MCP clients over stdin and stdout, or over HTTP, until stdin closes or Ctrl-C is pressed."""
    tool_options = {"toolset": toolset, "user": user, "short_names": short_names}
    http_options: dict[str, object] = {
        "--host": host,
        "--port": port,
        "--path": path,
        "--token-env": token_env,
        "--allow-host": names or None,
        "--allow-origin": origins or None,
    }
    given_http_options = [name for name, value in http_options.items() if value is not None]
    if given_http_options and not over_http:
        raise CommandExit(EXIT_USAGE, f"{', '.join(given_http_options)} can be used with --http only.")
    address = ServeAddress(
        DEFAULT_HOST if host is None else host,
        DEFAULT_PORT if port is None else port,
        path or DEFAULT_PATH,
        token_env,
        names,
        origins,
    )
    with exit_on_serve_error(), silence_library_logs(), log_crashes():
        token = address.token if over_http else None
        runtime = runtime_options.build_runtime_with_store()
        serve_options = {**tool_options, "on_wait": partial(_announce_pending, runtime_options, runtime)}
        if over_http:
            run_coroutine(_serve_http(runtime, address, token, serve_options), fastest_loop_factory())
        else:
            run_coroutine(_serve_stdio(runtime_options, runtime, tool_options, serve_options))


async def _serve_stdio(
    runtime_options: RuntimeOptions, runtime: Runtime, tool_options: dict[str, Any], serve_options: dict[str, Any]
) -> None:
    # Imported here: it brings the MCP SDK, and a missing extra is reported by `exit_on_serve_error`.
    from surehand.gateway.mcp.stdio.serve import serve

    if is_terminal(sys.stdin):
        program, *words = absolute_command(runtime_options, "mcp")
        server_entry = {"command": program, "args": [*words, *_command_line_options(tool_options)]}
        configuration = json.dumps({"mcpServers": {"surehand": server_entry}})
        print_stderr(
            f"This speaks MCP on stdin and stdout. A client starts it with this entry: {configuration}",
            "Ctrl-D ends it.",
        )
    warn_without_store(runtime, NO_STORE_WARNING)
    await serve(runtime, **serve_options)


async def _serve_http(
    runtime: Runtime, address: ServeAddress, token: str | None, serve_options: dict[str, Any]
) -> None:
    # Imported here: they bring the MCP SDK and uvicorn; a missing extra is reported by `exit_on_serve_error`.
    from surehand.gateway.mcp.http.app import app
    from surehand.gateway.mcp.http.server import listen

    sockets = address.bind_sockets()
    port = sockets[0].getsockname()[1]

    def ready() -> None:
        count = _count_served_tools(runtime, serve_options["toolset"])
        tools = "1 tool" if count == 1 else f"{count} tools"
        print_stderr(f"Serving {tools} over MCP at {address.url(port)} until Ctrl-C.")
        header = f' --header "Authorization: Bearer ${address.token_env}"' if token else ""
        client_command = f"claude mcp add --transport http surehand {address.client_url(port)}{header}"
        print_stderr(f"Connect a client, for example: {client_command}")
        warn_without_store(runtime, NO_STORE_WARNING)

    with ExitStack() as closing, redirect_stdout(sys.stderr):  # keep the prints of tools off stdout
        for each in sockets:
            closing.enter_context(each)
        application = app(
            runtime,
            path=address.path,
            token=token,
            hosts=address.allowed_hosts,
            origins=address.allowed_origins,
            **serve_options,
        )
        await listen(application, sockets, ready=ready)


def _count_served_tools(runtime: Runtime, toolset: str | None) -> int:
    """Number of tools for clients, without our own internal ones."""
    described = runtime.describe("mcp", toolset=toolset)
    listings = [runtime.catalogue.find(entry.get("name", "")) for entry in described]
    return sum(listing is not None and listing.kind != "internal" for listing in listings)


def _announce_pending(runtime_options: RuntimeOptions, runtime: Runtime, tool: str, pending: Pending) -> None:
    """Print the command that answers a pending call, because its client cannot ask a person."""
    announcement = f"{to_one_line(tool)} waits for {pending.waiting_for}"
    if not runtime.is_durable:
        print_stderr(f"{announcement}, which cannot be given without a store.")
        return
    question = question_arguments(pending.call_id, runtime.last_round(pending.call_id))
    if pending.waiting_for == "approval" or is_yes_no_form(pending.request):
        print_stderr(f"{announcement}: {_shell_command(runtime_options, 'approve', *question)}")
    else:
        print_stderr(f"{announcement}: {_shell_command(runtime_options, 'settle', *question)} ANSWER")


def _shell_command(runtime_options: RuntimeOptions, *words: str) -> str:
    program, *others = absolute_command(runtime_options, *words)
    return shlex.join(["surehand" if shutil.which("surehand") else program, *others])


def _command_line_options(tool_options: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for name in ("toolset", "user"):
        if tool_options[name]:
            words += [f"--{name}", tool_options[name]]
    if tool_options["short_names"]:
        words.append("--short-names")
    return words


def absolute_command(runtime_options: RuntimeOptions, verb: str, *words: str) -> list[str]:
    """The words of a command with the same options, with absolute paths: it works from any directory."""
    config = runtime_options.config_path or (None if runtime_options.tool_sources else find_config())
    absolute_options = replace(
        runtime_options,
        tool_sources=tuple(map(_absolute_source, runtime_options.tool_sources)),
        config_path=str(Path(config).resolve()) if config else None,
    )
    command_words = shlex.split(absolute_options.follow_up_command(verb, *words))
    if runtime_options.store_override is not None:
        # The override is an absolute path; `follow_up_command` shortens it for a person.
        command_words[command_words.index("--store") + 1] = hide_password(runtime_options.store_override)
    return [_current_program(), *command_words[1:]]


def _absolute_source(source: str) -> str:
    """A file source with an absolute path; a module is found by its name anywhere."""
    file, colon, name = (source, "", "") if source.endswith(".py") else source.rpartition(":")
    return f"{Path(file).resolve()}{colon}{name}" if file.endswith(".py") else source


def _current_program() -> str:
    """The running script, so that a client starts this installation."""
    script = shutil.which(sys.argv[0])
    return os.path.abspath(script) if script and Path(script).stem == "surehand" else "surehand"
