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

from surehand.cli.definition_diff import change_to_json, render_change
from surehand.cli.exit_codes import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_NOT_FOUND,
    EXIT_PENDING,
    EXIT_REFUSED,
    EXIT_USAGE,
    CommandExit,
)
from surehand.cli.formatting import create_console, is_terminal, json_line
from surehand.cli.options import error_message, relative_path
from surehand.cli.prompt import discard_typed_input, print_notice, read_answer
from surehand.config.config import find_config
from surehand.config.errors import ConfigError
from surehand.core.errors import DefinitionError, NotFound, ToolError
from surehand.core.names import nearest_names
from surehand.providers.trust.change import DefinitionChange, escaped_display_name
from surehand.providers.trust.lock import DefinitionLock

LOCK_FILE_NAME = "surehand.lock"
NO_LOCK_FILE_MESSAGE = "There is no lock file {file}. It is written when the tools of an MCP server are first seen."
NO_TERMINAL_MESSAGE = (
    "Nothing was accepted: there is nobody to ask. Give each hash that `lock diff` showed with --hash, or --all."
)
ACCEPT_QUESTION = "Accept it? [y]es, [n]o: "


class ChangeHashParam(click.ParamType[str]):
    """The hash of a change, in full: of two definitions, somebody can make a few digits equal."""

    name = "hash"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """In lower case, as it is kept."""
        if not re.fullmatch(r"[0-9a-f]{64}", found := str(value).strip().lower()):
            self.fail("a hash is 64 hexadecimal digits, as `surehand lock diff` shows it.", param, ctx)
        return found


def _lock_options(command: Callable[..., None]) -> Callable[..., None]:
    """Options that say where the lock file is."""
    config = click.option("-c", "--config", metavar="FILE", help="The configuration file beside which the lock is.")
    lock = click.option(
        "--lock", "path", metavar="PATH", help=f"The lock file [{LOCK_FILE_NAME} beside the configuration]."
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
    return config(lock(as_json(command)))


@click.group("lock")
def command() -> None:
    """See which tools of MCP servers have changed since they were pinned, and accept what is all right."""


@command.command("diff")
@click.argument("names", nargs=-1, metavar="[SERVER[/TOOL] ...]")
@_lock_options
@click.pass_context
def diff(ctx: click.Context, names: tuple[str, ...], config: str | None, path: str | None, as_json: bool) -> None:
    """Show what has changed and waits to be accepted. Nothing is started.

    Exit codes: 0 nothing has changed, 1 something has, 2 the lock file cannot be used, 5 no such server or tool.
    """
    with _exit_on_lock_error():
        lock = _open_lock(config, path)
        changes = _select_changes(lock, names)
    if as_json or not is_terminal(sys.stdout):
        sys.stdout.writelines(json_line(change_to_json(change)) for change in changes)
    else:
        _print_changes(changes, _location_options(config, path))
    if not changes:
        sys.stderr.write("Nothing has changed.\n")
    ctx.exit(EXIT_FAILED if changes else EXIT_DONE)


@command.command("accept")
@click.argument("names", nargs=-1, metavar="[SERVER[/TOOL] ...]")
@click.option("--all", "every", is_flag=True, help="All that has changed, without a look at it.")
@click.option(
    "--hash", "hashes", type=ChangeHashParam(), multiple=True, metavar="HASH", help="What was looked at; repeatable."
)
@_lock_options
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
    with _exit_on_lock_error():
        lock = _open_lock(config, path)
        changes = _select_changes(lock, names)
        if not changes and not hashes:
            sys.stderr.write("Nothing has changed.\n")
            return
        if every or hashes:
            _accept_changes(lock, _changes_with_hashes(changes, hashes), as_json=as_json)
            return
        if as_json or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
            raise CommandExit(EXIT_PENDING, NO_TERMINAL_MESSAGE)
        ctx.exit(_ask_about_each(lock, changes))


@contextmanager
def _exit_on_lock_error() -> Iterator[None]:
    """What a lock says that it cannot do, as the end of a command."""
    try:
        yield
    except (DefinitionError, ConfigError) as error:
        raise CommandExit(EXIT_USAGE, error_message(error)) from error
    except NotFound as error:
        raise CommandExit(EXIT_NOT_FOUND, str(error)) from error
    except ToolError as error:
        raise CommandExit(EXIT_FAILED, str(error)) from error


def _open_lock(config: str | None, path: str | None) -> DefinitionLock:
    """The lock that is meant, which has to be there: a wrong path must not look like nothing to accept."""
    found = Path(path) if path else _lock_path_beside(Path(config) if config else find_config())
    if not os.path.exists(found):
        raise CommandExit(EXIT_USAGE, NO_LOCK_FILE_MESSAGE.format(file=relative_path(str(found))))
    return DefinitionLock(found)


def _lock_path_beside(config: Path | None) -> Path:
    return (config.parent if config else Path()) / LOCK_FILE_NAME


def _select_changes(lock: DefinitionLock, names: tuple[str, ...]) -> list[DefinitionChange]:
    """The changes of these servers and tools, or all."""
    changes, pinned = lock.changes(), lock.pinned_tools()
    known = {*pinned, *(f"{server}/{tool}" for server, tools in pinned.items() for tool in tools)}
    for name in names:
        if not _is_any_named(changes, name) and name not in known:
            hint = _unknown_name_hint(name, pinned, known)
            raise CommandExit(
                EXIT_NOT_FOUND, f"Nothing called {escaped_display_name(name, None)} is in the lock file. {hint}"
            )
    return [change for change in changes if not names or any(_name_covers_change(name, change) for name in names)]


def _unknown_name_hint(name: str, pinned: Collection[str], known: Collection[str]) -> str:
    """What may have been meant: servers are pinned under what their tools' names begin with."""
    if near := nearest_names(name, known, 1):
        return f"Did you mean {escaped_display_name(near[0], None)}?"
    return f"Servers in it: {', '.join(escaped_display_name(each, None) for each in pinned) or 'none'}."


def _is_any_named(changes: list[DefinitionChange], name: str) -> bool:
    return any(_name_covers_change(name, change) for change in changes)


def _name_covers_change(name: str, change: DefinitionChange) -> bool:
    """A server means all its tools; a tool of a server that is another one by now means that server."""
    return name in (change.name, change.namespace) or (change.tool is None and name.startswith(f"{change.namespace}/"))


def _changes_with_hashes(changes: list[DefinitionChange], hashes: tuple[str, ...]) -> list[DefinitionChange]:
    """Those that were looked at. Where one is not here, something has changed since."""
    if not hashes:
        return changes
    found = {change.sha256 for change in changes}
    if missing := [each for each in hashes if each not in found]:
        problem = f"Nothing that is quarantined has the hash {missing[0]}: it was accepted, or has changed again."
        raise ToolError(f"{problem} Nothing was accepted; look at it again.", code="conflict")
    return [change for change in changes if change.sha256 in hashes]


def _accept_changes(lock: DefinitionLock, changes: list[DefinitionChange], *, as_json: bool) -> None:
    for change in changes:
        lock.accept(change.namespace, *([] if change.tool is None else [change.tool]), reviewed_hashes=[change.sha256])
        if as_json or not is_terminal(sys.stdout):
            sys.stdout.write(json_line({"accepted": change.name, "server": change.namespace, "tool": change.tool,
                                   "sha256": change.sha256, "summary": change.summary}))  # fmt: skip
        else:
            print_notice(f"Accepted {change.summary}", "green")


def _ask_about_each(lock: DefinitionLock, changes: list[DefinitionChange]) -> int:
    """Whoever leaves is not asked again; one no is told by the exit code."""
    codes = [EXIT_DONE]
    for change in changes:
        codes.append(_ask_about_change(lock, change))
        if codes[-1] == EXIT_PENDING:
            return EXIT_PENDING
    return max(codes)


def _ask_about_change(lock: DefinitionLock, change: DefinitionChange) -> int:
    """Show everything, and accept what was shown if the person says so."""
    create_console().print(render_change(change), soft_wrap=True)
    discard_typed_input()
    while (answer := read_answer(ACCEPT_QUESTION)) is not None:
        match answer.strip().lower():
            case "y" | "yes":
                _accept_changes(lock, [change], as_json=False)
                return EXIT_DONE
            case "n" | "no":
                return EXIT_REFUSED
        print_notice("Answer y or n.", "yellow")
    return EXIT_PENDING


def _print_changes(changes: list[DefinitionChange], location_options: list[str]) -> None:
    for change in changes:
        create_console().print(render_change(change), soft_wrap=True)
        sys.stdout.write("\n")
    if changes:
        command = shlex.join(["surehand", "lock", "accept", *location_options])
        print_notice(f"These tools are not called until you accept them: {command}")


def _location_options(config: str | None, path: str | None) -> list[str]:
    """The options that say where the lock is, once more."""
    return [*(["-c", config] if config else []), *(["--lock", path] if path else [])]
