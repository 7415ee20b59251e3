"""`surehand mcp`: the tools as an MCP server, over stdin and stdout or over HTTP."""

from __future__ import annotations

import json
import logging
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from functools import partial
from typing import Any

import click

from surehand.catalogue.listing import Listing
from surehand.cli.exits import FAILED, USAGE, Ended, complain
from surehand.cli.form import is_plain
from surehand.cli.opening import refusals
from surehand.cli.options import Given, with_tools_and_store
from surehand.cli.outcome import named
from surehand.cli.place import HOST, PATH, PORT, Place
from surehand.cli.run import fastest_loop, run
from surehand.cli.screen import is_person, one_line
from surehand.cli.whole import whole
from surehand.core.errors import Unavailable
from surehand.core.outcome import Pending
from surehand.runtime.runtime import Runtime

NO_STORE = "No store: calls that need a yes can only be answered by clients that can ask. Add --store calls.db"
_LIBRARIES = ("mcp", "uvicorn", "sse_starlette", "starlette")


@click.command("mcp")
@click.option("--http", "over_http", is_flag=True, help="Serve over HTTP, and not over stdin and stdout.")
@click.option("--host", metavar="ADDRESS", help=f"Where to listen [{HOST}]. Others than this machine need a token.")
@click.option("--port", type=click.IntRange(0, 65535), help=f"On which port [{PORT}]; 0 is any that is free.")
@click.option("--path", metavar="PATH", help=f"At which path [{PATH}].")
@click.option("--token-env", metavar="NAME", help="The variable with the bearer token that clients have to show.")
@click.option("--allow-host", "names", multiple=True, metavar="NAME", help="A further name that clients reach it by.")
@click.option("--allow-origin", "origins", multiple=True, metavar="URL", help="A site whose pages may talk to it.")
@click.option("--toolset", metavar="NAME", help="Only tools of this toolset, or whose names match a glob.")
@click.option("--user", metavar="ID", help="The user that calls are made for.")
@click.option("--short-names", is_flag=True, help="Tools without their provider's name, where only one has the name.")
@with_tools_and_store
def command(
    given: Given,
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
        raise Ended(USAGE, f"{', '.join(useless)} mean{'s' * (len(useless) == 1)} something with --http only.")
    where = HOST if host is None else host, PORT if port is None else port, path or PATH
    place = Place(*where, token_env, names, origins)
    with _explained(), _quiet(), crashes_told():
        token = place.token if over_http else None
        runtime = given.remembering()
        how = {**options, "on_wait": partial(_tell_of, given, runtime)}
        if over_http:
            run(_over_http(runtime, place, token, how), fastest_loop())
        else:
            run(_over_stdio(given, runtime, options, how))


async def _over_stdio(given: Given, runtime: Runtime, options: dict[str, Any], how: dict[str, Any]) -> None:
    from surehand.gateway.mcp.stdio.serve import serve

    if is_person(sys.stdin):
        command, *words = whole(given, "mcp")
        entry = json.dumps({"mcpServers": {"surehand": {"command": command, "args": [*words, *_repeated(options)]}}})
        _tell(f"This speaks MCP on stdin and stdout. A client starts it by itself: {entry}", "Ctrl-D ends it.")
    _warn(runtime)
    await serve(runtime, **how)


async def _over_http(runtime: Runtime, place: Place, token: str | None, how: dict[str, Any]) -> None:
    from surehand.gateway.mcp.http.app import app
    from surehand.gateway.mcp.http.server import listen

    sockets = place.bound()
    port = sockets[0].getsockname()[1]

    def ready() -> None:
        number = _served(runtime, how["toolset"])
        header = f' --header "Authorization: Bearer ${place.token_env}"' if token else ""
        _tell(f"Serving {number} tool{'s' * (number != 1)} over MCP at {place.url(port)} until Ctrl-C.")
        add = f"claude mcp add --transport http surehand {place.reached(port)}{header}"
        _tell(f"Connect a client, for example: {add}")
        _warn(runtime)

    with ExitStack() as closing, redirect_stdout(sys.stderr):  # what tools print is no part of our output
        for each in sockets:
            closing.enter_context(each)
        served = app(runtime, path=place.path, token=token, hosts=place.hosts, origins=place.origins, **how)
        await listen(served, sockets, ready=ready)


def _served(runtime: Runtime, toolset: str | None) -> int:
    """How many tools there are for clients; those of our own, which come with what they are about, do not count."""
    found = [runtime.catalogue.find(entry.get("name", "")) for entry in runtime.describe("mcp", toolset=toolset)]
    return sum(listing is not None and listing.kind != "internal" for listing in found)


def _warn(runtime: Runtime) -> None:
    """Say once, as soon as it is known, that what waits could be answered by nobody."""
    if runtime.parts.durable:
        return
    told = False

    def look() -> None:
        nonlocal told
        if not told and any(_may_ask(runtime, listing) for listing in runtime.catalogue):
            told = True
            complain(NO_STORE, kind="warning", colour=33)

    look()
    _ = runtime.catalogue.watch(look)  # providers may have their tools later


def _may_ask(runtime: Runtime, listing: Listing) -> bool:
    """Whether somebody may have to say yes to calls of a tool."""
    rules = runtime.parts.policy.for_tool(listing)
    return listing.tool.safety.confirm is not False or any(rule.decision == "ask" for rule in rules)


def _tell_of(given: Given, runtime: Runtime, tool: str, pending: Pending) -> None:
    """One line about a call that waits for somebody whom its client cannot ask."""
    told = f"{one_line(tool)} waits for {pending.waiting_for}"
    parked = runtime.parts.waits.here.get(pending.call_id)
    question = named(pending.call_id, parked.round if parked is not None else 1)
    if not runtime.parts.durable:
        _tell(f"{told}, which nobody can give: there is no store.")
    elif pending.waiting_for == "approval" or is_plain(pending.request):
        _tell(f"{told}: {_command(given, 'approve', *question)}")
    else:
        _tell(f"{told}: {_command(given, 'settle', *question)} ANSWER")


def _command(given: Given, *words: str) -> str:
    program, *others = whole(given, *words)
    return shlex.join(["surehand" if shutil.which("surehand") else program, *others])


def _repeated(options: dict[str, Any]) -> list[str]:
    words = [word for name in ("toolset", "user") if options[name] for word in (f"--{name}", options[name])]
    return [*words, *(["--short-names"] if options["short_names"] else [])]


def _tell(*lines: str) -> None:
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()


@contextmanager
def _explained() -> Iterator[None]:
    """Why nothing could be served, as the end of the command."""
    try:
        with refusals():
            yield
    except Unavailable as error:
        raise Ended(USAGE, f"The tools cannot be started: {error}") from error
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        raise Ended(USAGE, f"Serving over MCP needs {missing}: pip install 'surehand[mcp,server]'") from error
    except BaseExceptionGroup as error:
        raise Ended(FAILED, f"The server ended: {error.exceptions[0]}") from error


class _Crashes(logging.Handler):
    """A line for what broke in a tool, whose whole traceback those see who debug."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and logging.getLogger("surehand").level != logging.DEBUG:
            kind, error, _ = record.exc_info
            first = next(iter(str(error).splitlines()), "")
            told = f"{record.getMessage()}: {kind.__name__ if kind else ''}: {first} (--debug shows all of it)"
            complain(one_line(told), kind="warning", colour=33)


@contextmanager
def crashes_told() -> Iterator[None]:
    """Nobody is shown the outcomes of calls here, so what crashes is told."""
    log, told = logging.getLogger("surehand"), _Crashes(logging.WARNING)
    log.addHandler(told)
    try:
        yield
    finally:
        log.removeHandler(told)


@contextmanager
def _quiet() -> Iterator[None]:
    """What clients do wrong is told to them, and no news here; those who debug see all of it."""
    logs = [logging.getLogger(name) for name in _LIBRARIES]
    before = [log.level for log in logs]
    if not click.get_current_context().obj["debug"]:
        for log in logs:
            log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for log, level in zip(logs, before, strict=True):
            log.setLevel(level)
