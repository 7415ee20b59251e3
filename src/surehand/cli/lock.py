"""`surehand lock`: which tools of MCP servers are not what they were, and whether that is all right."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from surehand.cli.changes import change_as_json, shown_change
from surehand.cli.exits import DONE, FAILED, PENDING, REFUSED, UNKNOWN, USAGE, Ended
from surehand.cli.options import near, shown
from surehand.cli.prompt import ask, forget_typed, say
from surehand.cli.screen import console, is_person, line
from surehand.config.config import find_config
from surehand.config.errors import ConfigError
from surehand.core.errors import DefinitionError, NotFound, ToolError
from surehand.core.names import nearest
from surehand.providers.mcp.trust.change import Change, shown_name
from surehand.providers.mcp.trust.lock import Lock

NAME = "surehand.lock"
NOT_THERE = "There is no lock file {file}. It is written when the tools of an MCP server are first seen."
NOBODY = "Nothing was accepted: there is nobody to ask. Give each hash that `lock diff` showed with --hash, or --all."
QUESTION = "Accept it? [y]es, [n]o: "


class Hash(click.ParamType[str]):
    """The hash of a change, in full: of two definitions, somebody can make a few digits equal."""

    name = "hash"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """In lower case, as it is kept."""
        if not re.fullmatch(r"[0-9a-f]{64}", found := str(value).strip().lower()):
            self.fail("a hash is 64 hexadecimal digits, as `surehand lock diff` shows it.", param, ctx)
        return found


def _with_lock(command: Callable[..., None]) -> Callable[..., None]:
    """Options that say where the lock file is."""
    config = click.option("-c", "--config", metavar="FILE", help="The configuration file beside which the lock is.")
    lock = click.option("--lock", "path", metavar="PATH", help=f"The lock file [{NAME} beside the configuration].")
    as_json = click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
    return config(lock(as_json(command)))


@click.group("lock")
def command() -> None:
    """See which tools of MCP servers have changed since they were pinned, and accept what is all right."""


@command.command("diff")
@click.argument("names", nargs=-1, metavar="[SERVER[/TOOL] ...]")
@_with_lock
@click.pass_context
def diff(ctx: click.Context, names: tuple[str, ...], config: str | None, path: str | None, as_json: bool) -> None:
    """Show what has changed and waits to be accepted. Nothing is started.

    Exit codes: 0 nothing has changed, 1 something has, 2 the lock file cannot be used, 5 no such server or tool.
    """
    with _refusals():
        lock = _opened(config, path)
        changes = _named(lock, names)
    if as_json or not is_person(sys.stdout):
        sys.stdout.writelines(line(change_as_json(change)) for change in changes)
    else:
        _show(changes, _again(config, path))
    if not changes:
        sys.stderr.write("Nothing has changed.\n")
    ctx.exit(FAILED if changes else DONE)


@command.command("accept")
@click.argument("names", nargs=-1, metavar="[SERVER[/TOOL] ...]")
@click.option("--all", "every", is_flag=True, help="All that has changed, without a look at it.")
@click.option("--hash", "hashes", type=Hash(), multiple=True, metavar="HASH", help="What was looked at; repeatable.")
@_with_lock
@click.pass_context
def accept(
    ctx: click.Context,
    names: tuple[str, ...],
    every: bool,
    hashes: tuple[str, ...],
    config: str | None,
    path: str | None,
    as_json: bool,
) -> None:
    """Trust what has changed, all of it or what is named.

    In a terminal each change is shown first, and you are asked. A script gives the hashes that `lock diff` showed, or
    --all. What has changed again since it was shown is not accepted.

    Exit codes: 0 accepted, or nothing has changed; 1 it is not what was shown; 2 wrong usage, or the lock file cannot
    be used; 3 there was nobody to ask; 4 you said no; 5 no such server or tool.
    """
    if every and (names or hashes):
        raise click.UsageError("Name what to accept, or give --all for everything, not both.")
    with _refusals():
        lock = _opened(config, path)
        changes = _named(lock, names)
        if not changes and not hashes:
            sys.stderr.write("Nothing has changed.\n")
            return
        if every or hashes:
            _accept(lock, _shown_before(changes, hashes), as_json=as_json)
            return
        if as_json or not (is_person(sys.stdin) and is_person(sys.stdout)):
            raise Ended(PENDING, NOBODY)
        ctx.exit(_ask_each(lock, changes))


@contextmanager
def _refusals() -> Iterator[None]:
    """What a lock says that it cannot do, as the end of a command."""
    try:
        yield
    except (DefinitionError, ConfigError) as error:
        raise Ended(USAGE, shown(error)) from error
    except NotFound as error:
        raise Ended(UNKNOWN, str(error)) from error
    except ToolError as error:
        raise Ended(FAILED, str(error)) from error


def _opened(config: str | None, path: str | None) -> Lock:
    """The lock that is meant, which has to be there: a wrong path must not look like nothing to accept."""
    found = Path(path) if path else _beside(Path(config) if config else find_config())
    if not os.path.exists(found):
        raise Ended(USAGE, NOT_THERE.format(file=near(str(found))))
    return Lock(found)


def _beside(config: Path | None) -> Path:
    return (config.parent if config else Path()) / NAME


def _named(lock: Lock, names: tuple[str, ...]) -> list[Change]:
    """The changes of these servers and tools, or all."""
    changes, pinned = lock.changes(), lock.servers()
    known = {*pinned, *(f"{server}/{tool}" for server, tools in pinned.items() for tool in tools)}
    for name in names:
        if not _meant(changes, name) and name not in known:
            hint = _hint(name, pinned, known)
            raise Ended(UNKNOWN, f"Nothing called {shown_name(name, None)} is in the lock file. {hint}")
    return [change for change in changes if not names or any(_means(name, change) for name in names)]


def _hint(name: str, pinned: Collection[str], known: Collection[str]) -> str:
    """What may have been meant: servers are pinned under what their tools' names begin with."""
    if near := nearest(name, known, 1):
        return f"Did you mean {shown_name(near[0], None)}?"
    return f"Servers in it: {', '.join(shown_name(each, None) for each in pinned) or 'none'}."


def _meant(changes: list[Change], name: str) -> bool:
    return any(_means(name, change) for change in changes)


def _means(name: str, change: Change) -> bool:
    """A server means all its tools; a tool of a server that is another one by now means that server."""
    return name in (change.name, change.server) or (change.tool is None and name.startswith(f"{change.server}/"))


def _shown_before(changes: list[Change], hashes: tuple[str, ...]) -> list[Change]:
    """Those that were looked at. Where one is not here, something has changed since."""
    if not hashes:
        return changes
    found = {change.sha256 for change in changes}
    if missing := [each for each in hashes if each not in found]:
        problem = f"Nothing that is quarantined has the hash {missing[0]}: it was accepted, or has changed again."
        raise ToolError(f"{problem} Nothing was accepted; look at it again.", code="conflict")
    return [change for change in changes if change.sha256 in hashes]


def _accept(lock: Lock, changes: list[Change], *, as_json: bool) -> None:
    for change in changes:
        lock.accept(change.server, *([] if change.tool is None else [change.tool]), shown=[change.sha256])
        if as_json or not is_person(sys.stdout):
            sys.stdout.write(line({"accepted": change.name, "server": change.server, "tool": change.tool,
                                   "sha256": change.sha256, "summary": change.summary}))  # fmt: skip
        else:
            say(f"Accepted {change.summary}", "green")


def _ask_each(lock: Lock, changes: list[Change]) -> int:
    """Whoever leaves is not asked again; one no is told by the exit code."""
    codes = [DONE]
    for change in changes:
        codes.append(_ask(lock, change))
        if codes[-1] == PENDING:
            return PENDING
    return max(codes)


def _ask(lock: Lock, change: Change) -> int:
    """Show everything, and accept what was shown if the person says so."""
    console().print(shown_change(change), soft_wrap=True)
    forget_typed()
    while (answer := ask(QUESTION)) is not None:
        match answer.strip().lower():
            case "y" | "yes":
                _accept(lock, [change], as_json=False)
                return DONE
            case "n" | "no":
                return REFUSED
        say("Answer y or n.", "yellow")
    return PENDING


def _show(changes: list[Change], again: list[str]) -> None:
    for change in changes:
        console().print(shown_change(change), soft_wrap=True)
        sys.stdout.write("\n")
    if changes:
        command = shlex.join(["surehand", "lock", "accept", *again])
        say(f"These tools are not called until you accept them: {command}")


def _again(config: str | None, path: str | None) -> list[str]:
    """The options that say where the lock is, once more."""
    return [*(["-c", config] if config else []), *(["--lock", path] if path else [])]
