"""`surehand mcp`: the tools as an MCP server, over stdin and stdout or over HTTP."""

from __future__ import annotations

import json
import logging
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from surehand.catalogue.listing import Listing
from surehand.cli.elicitation_form import is_yes_no_form
from surehand.cli.exit_codes import EXIT_FAILED, EXIT_USAGE, CommandExit, print_problem
from surehand.cli.formatting import is_terminal, to_one_line
from surehand.cli.http_endpoint import DEFAULT_HOST, DEFAULT_PATH, DEFAULT_PORT, HttpEndpoint
from surehand.cli.lifecycle import exit_on_store_error, fastest_loop_factory, run_coroutine
from surehand.cli.options import RuntimeOptions, with_tools_and_store
from surehand.cli.outcome_output import question_arguments
from surehand.config.config import find_config
from surehand.config.store_address import hide_password
from surehand.core.errors import Unavailable
from surehand.core.outcome import Pending
from surehand.runtime.runtime import Runtime


def absolute_command(runtime_options: RuntimeOptions, verb: str, *words: str) -> list[str]:
    """The words of a command with the same options, every file among them with its whole path."""
    config = runtime_options.config_path or (None if runtime_options.tool_sources else find_config())
    sources = tuple(map(_absolute_source, runtime_options.tool_sources))
    made = replace(runtime_options, tool_sources=sources, config_path=str(Path(config).resolve()) if config else None)
    found = shlex.split(made.follow_up_command(verb, *words))
    if (
        runtime_options.store_override is not None
    ):  # which is a whole path, but is shown to people as seen from where they are
        found[found.index("--store") + 1] = hide_password(runtime_options.store_override)
    return [_current_program(), *found[1:]]


def _absolute_source(source: str) -> str:
    """A file with its whole path; a module is found by its name anywhere."""
    file, colon, wanted = (source, "", "") if source.endswith(".py") else source.rpartition(":")
    return f"{Path(file).resolve()}{colon}{wanted}" if file.endswith(".py") else source


def _current_program() -> str:
    """The running script, so that it is this installation that is started."""
    found = shutil.which(sys.argv[0])
    return os.path.abspath(found) if found and Path(found).stem == "surehand" else "surehand"


NO_STORE_WARNING = "No store: calls that need a yes can only be answered by clients that can ask. Add --store calls.db"
_SILENCED_LOGGERS = ("mcp", "uvicorn", "sse_starlette", "starlette")


@click.command("mcp")
@click.option("--http", "over_http", is_flag=True, help="Serve over HTTP, and not over stdin and stdout.")
@click.option(
    "--host", metavar="ADDRESS", help=f"Where to listen [{DEFAULT_HOST}]. Others than this machine need a token."
)
@click.option("--port", type=click.IntRange(0, 65535), help=f"On which port [{DEFAULT_PORT}]; 0 is any that is free.")
@click.option("--path", metavar="PATH", help=f"At which path [{DEFAULT_PATH}].")
@click.option("--token-env", metavar="NAME", help="The variable with the bearer token that clients have to show.")
@click.option("--allow-host", "names", multiple=True, metavar="NAME", help="A further name that clients reach it by.")
@click.option("--allow-origin", "origins", multiple=True, metavar="URL", help="A site whose pages may talk to it.")
@click.option("--toolset", metavar="NAME", help="Only tools of this toolset, or whose names match a glob.")
@click.option("--user", metavar="ID", help="The user that calls are made for.")
@click.option("--short-names", is_flag=True, help="Tools without their provider's name, where only one has the name.")
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
    """Serve the tools to MCP clients, over stdin and stdout or over HTTP, until these close or Ctrl-C is pressed."""
    options = {"toolset": toolset, "user": user, "short_names": short_names}
    web: dict[str, object] = {"--host": host, "--port": port, "--path": path, "--token-env": token_env}
    web |= {"--allow-host": names or None, "--allow-origin": origins or None}
    if not over_http and (useless := [name for name, value in web.items() if value is not None]):
        raise CommandExit(
            EXIT_USAGE, f"{', '.join(useless)} mean{'s' * (len(useless) == 1)} something with --http only."
        )
    where = DEFAULT_HOST if host is None else host, DEFAULT_PORT if port is None else port, path or DEFAULT_PATH
    place = HttpEndpoint(*where, token_env, names, origins)
    with _exit_on_serve_error(), _silence_library_logs(), log_crashes():
        token = place.token if over_http else None
        runtime = runtime_options.build_runtime_with_store()
        how = {**options, "on_wait": partial(_announce_pending, runtime_options, runtime)}
        if over_http:
            run_coroutine(_serve_http(runtime, place, token, how), fastest_loop_factory())
        else:
            run_coroutine(_serve_stdio(runtime_options, runtime, options, how))


async def _serve_stdio(
    runtime_options: RuntimeOptions, runtime: Runtime, tool_options: dict[str, Any], serve_options: dict[str, Any]
) -> None:
    from surehand.gateway.mcp.stdio.serve import serve

    if is_terminal(sys.stdin):
        command, *words = absolute_command(runtime_options, "mcp")
        entry = json.dumps(
            {"mcpServers": {"surehand": {"command": command, "args": [*words, *_command_line_options(tool_options)]}}}
        )
        _print_stderr(f"This speaks MCP on stdin and stdout. A client starts it by itself: {entry}", "Ctrl-D ends it.")
    _warn_without_store(runtime)
    await serve(runtime, **serve_options)


async def _serve_http(
    runtime: Runtime, endpoint: HttpEndpoint, token: str | None, serve_options: dict[str, Any]
) -> None:
    from surehand.gateway.mcp.http.app import app
    from surehand.gateway.mcp.http.server import listen

    sockets = endpoint.bind_sockets()
    port = sockets[0].getsockname()[1]

    def ready() -> None:
        number = _count_served_tools(runtime, serve_options["toolset"])
        header = f' --header "Authorization: Bearer ${endpoint.token_env}"' if token else ""
        _print_stderr(f"Serving {number} tool{'s' * (number != 1)} over MCP at {endpoint.url(port)} until Ctrl-C.")
        add = f"claude mcp add --transport http surehand {endpoint.client_url(port)}{header}"
        _print_stderr(f"Connect a client, for example: {add}")
        _warn_without_store(runtime)

    with ExitStack() as closing, redirect_stdout(sys.stderr):  # what tools print is no part of our output
        for each in sockets:
            closing.enter_context(each)
        served = app(
            runtime,
            path=endpoint.path,
            token=token,
            hosts=endpoint.allowed_hosts,
            origins=endpoint.allowed_origins,
            **serve_options,
        )
        await listen(served, sockets, ready=ready)


def _count_served_tools(runtime: Runtime, toolset: str | None) -> int:
    """How many tools there are for clients; those of our own, which come with what they are about, do not count."""
    found = [runtime.catalogue.find(entry.get("name", "")) for entry in runtime.describe("mcp", toolset=toolset)]
    return sum(listing is not None and listing.kind != "internal" for listing in found)


def _warn_without_store(runtime: Runtime) -> None:
    """Say once, as soon as it is known, that what waits could be answered by nobody."""
    if runtime.services.is_durable:
        return
    told = False

    def look() -> None:
        nonlocal told
        if not told and any(_may_need_approval(runtime, listing) for listing in runtime.catalogue):
            told = True
            print_problem(NO_STORE_WARNING, prefix="warning", ansi_colour=33)

    look()
    _ = runtime.catalogue.watch(look)  # providers may have their tools later


def _may_need_approval(runtime: Runtime, listing: Listing) -> bool:
    """Whether somebody may have to say yes to calls of a tool."""
    rules = runtime.services.policy.rules_for(listing)
    return listing.tool.safety.confirm is not False or any(rule.decision == "ask" for rule in rules)


def _announce_pending(runtime_options: RuntimeOptions, runtime: Runtime, tool: str, pending: Pending) -> None:
    """One line about a call that waits for somebody whom its client cannot ask."""
    told = f"{to_one_line(tool)} waits for {pending.waiting_for}"
    parked = runtime.services.pending_calls.invocations.get(pending.call_id)
    question = question_arguments(pending.call_id, parked.round if parked is not None else 1)
    if not runtime.services.is_durable:
        _print_stderr(f"{told}, which nobody can give: there is no store.")
    elif pending.waiting_for == "approval" or is_yes_no_form(pending.request):
        _print_stderr(f"{told}: {_shell_command(runtime_options, 'approve', *question)}")
    else:
        _print_stderr(f"{told}: {_shell_command(runtime_options, 'settle', *question)} ANSWER")


def _shell_command(runtime_options: RuntimeOptions, *words: str) -> str:
    program, *others = absolute_command(runtime_options, *words)
    return shlex.join(["surehand" if shutil.which("surehand") else program, *others])


def _command_line_options(tool_options: dict[str, Any]) -> list[str]:
    words = [word for name in ("toolset", "user") if tool_options[name] for word in (f"--{name}", tool_options[name])]
    return [*words, *(["--short-names"] if tool_options["short_names"] else [])]


def _print_stderr(*lines: str) -> None:
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()


@contextmanager
def _exit_on_serve_error() -> Iterator[None]:
    """Why nothing could be served, as the end of the command."""
    try:
        with exit_on_store_error():
            yield
    except Unavailable as error:
        raise CommandExit(EXIT_USAGE, f"The tools cannot be started: {error}") from error
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        raise CommandExit(
            EXIT_USAGE, f"Serving over MCP needs {missing}: pip install 'surehand[mcp,server]'"
        ) from error
    except BaseExceptionGroup as error:
        raise CommandExit(EXIT_FAILED, f"The server ended: {error.exceptions[0]}") from error


class _CrashLogHandler(logging.Handler):
    """A line for what broke in a tool, whose whole traceback those see who debug."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and logging.getLogger("surehand").level != logging.DEBUG:
            kind, error, _ = record.exc_info
            first = next(iter(str(error).splitlines()), "")
            told = f"{record.getMessage()}: {kind.__name__ if kind else ''}: {first} (--debug shows all of it)"
            print_problem(to_one_line(told), prefix="warning", ansi_colour=33)


@contextmanager
def log_crashes() -> Iterator[None]:
    """Nobody is shown the outcomes of calls here, so what crashes is told."""
    log, told = logging.getLogger("surehand"), _CrashLogHandler(logging.WARNING)
    log.addHandler(told)
    try:
        yield
    finally:
        log.removeHandler(told)


@contextmanager
def _silence_library_logs() -> Iterator[None]:
    """What clients do wrong is told to them, and no news here; those who debug see all of it."""
    logs = [logging.getLogger(name) for name in _SILENCED_LOGGERS]
    before = [log.level for log in logs]
    if not click.get_current_context().obj["debug"]:
        for log in logs:
            log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for log, level in zip(logs, before, strict=True):
            log.setLevel(level)
