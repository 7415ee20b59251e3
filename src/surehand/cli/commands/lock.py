"""`surehand lock`: show changed tool definitions of MCP servers, and accept them."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

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
from surehand.cli.options import HashParam, error_message, relative_path
from surehand.cli.prompt import discard_typed_input, print_notice, read_answer
from surehand.config.config import LOCK_FILE_NAME, find_config
from surehand.config.errors import ConfigError
from surehand.core.errors import DefinitionError, NotFound, ToolError
from surehand.core.names import nearest_names
from surehand.providers.trust.change import DefinitionChange, escaped_display_name
from surehand.providers.trust.lock import DefinitionLock

NO_LOCK_FILE_MESSAGE = "There is no lock file {file}. The first listing of an MCP server's tools creates it."
NO_TERMINAL_MESSAGE = (
    "Nothing was accepted: there is no terminal to ask on. "
    "Give each hash that `lock diff` showed with --hash, or --all."
)
ACCEPT_QUESTION = "Accept it? [y]es, [n]o: "
_HASH_PARAM = HashParam("a hash", "surehand lock diff")


def _lock_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that locate the lock file, and --json."""
    config = click.option("-c", "--config", metavar="FILE", help="The configuration file; the lock file is beside it.")
    lock = click.option(
        "--lock", "path", metavar="PATH", help=f"The lock file [{LOCK_FILE_NAME} beside the configuration]."
    )
    as_json = click.option("--json", "as_json", is_flag=True, help="JSON lines, as in a pipe.")
    return config(lock(as_json(command)))


@click.group("lock")
def command() -> None:
    """Show tools of MCP servers whose definitions have changed since they were pinned, and accept the changes."""


@command.command("diff")
@click.argument("names", nargs=-1, metavar="[SERVER[/TOOL] ...]")
@_lock_options
@click.pass_context
def diff(ctx: click.Context, names: tuple[str, ...], config: str | None, path: str | None, as_json: bool) -> None:
    """Show the changes that wait to be accepted. No server is started.

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
@click.option("--all", "every", is_flag=True, help="Accept all changes without showing them.")
@click.option(
    "--hash", "hashes", type=_HASH_PARAM, multiple=True, metavar="HASH", help="A change that was reviewed; repeatable."
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
    """Accept changed definitions, all of them or the named ones.

    In a terminal each change is shown, and you are asked. A script gives the hashes that `lock diff` showed, or --all.
    A definition that has changed again since it was shown is not accepted.

    Exit codes: 0 accepted, or nothing has changed; 1 it has changed again; 2 wrong usage, or the lock file cannot be
    used; 3 there was no terminal to ask on; 4 you said no; 5 no such server or tool.
    """
    if every and (names or hashes):
        raise click.UsageError("Name the changes to accept, or give --all, not both.")
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
    """Turn errors of the lock file into the end of the command."""
    try:
        yield
    except (DefinitionError, ConfigError) as error:
        raise CommandExit(EXIT_USAGE, error_message(error)) from error
    except NotFound as error:
        raise CommandExit(EXIT_NOT_FOUND, str(error)) from error
    except ToolError as error:
        raise CommandExit(EXIT_FAILED, str(error)) from error


def _open_lock(config: str | None, path: str | None) -> DefinitionLock:
    """Open the lock file, which must exist: a wrong path must not look like a lock without changes."""
    lock_path = Path(path) if path else _lock_path_beside(Path(config) if config else find_config())
    if not os.path.exists(lock_path):
        raise CommandExit(EXIT_USAGE, NO_LOCK_FILE_MESSAGE.format(file=relative_path(str(lock_path))))
    return DefinitionLock(lock_path)


def _lock_path_beside(config: Path | None) -> Path:
    return (config.parent if config else Path()) / LOCK_FILE_NAME


def _select_changes(lock: DefinitionLock, names: tuple[str, ...]) -> list[DefinitionChange]:
    """The changes of the named servers and tools; all without names."""
    changes = lock.changes()
    pinned = lock.pinned_tools()
    known = {*pinned, *(f"{server}/{tool}" for server, tools in pinned.items() for tool in tools)}
    for name in names:
        has_change = any(_name_covers_change(name, change) for change in changes)
        if not has_change and name not in known:
            hint = _unknown_name_hint(name, pinned, known)
            problem = f"The lock file has no entry {escaped_display_name(name, None)}."
            raise CommandExit(EXIT_NOT_FOUND, f"{problem} {hint}")
    return [change for change in changes if not names or any(_name_covers_change(name, change) for name in names)]


def _unknown_name_hint(name: str, pinned: Collection[str], known: Collection[str]) -> str:
    """A similar name, or the servers in the lock file, which are named by their namespaces."""
    similar = nearest_names(name, known, 1)
    if similar:
        return f"Did you mean {escaped_display_name(similar[0], None)}?"
    return f"Servers in it: {', '.join(escaped_display_name(each, None) for each in pinned) or 'none'}."


def _name_covers_change(name: str, change: DefinitionChange) -> bool:
    """Whether a name given by the person covers a change.

    A server's name covers all its tools. If the server itself was replaced, the name of any of its tools covers that.
    """
    if name in (change.name, change.namespace):
        return True
    return change.tool is None and name.startswith(f"{change.namespace}/")


def _changes_with_hashes(changes: list[DefinitionChange], hashes: tuple[str, ...]) -> list[DefinitionChange]:
    """The changes with these hashes, all without hashes; raises `conflict` if a hash matches no change."""
    if not hashes:
        return changes
    current = {change.sha256 for change in changes}
    missing = [each for each in hashes if each not in current]
    if missing:
        problem = f"No pending change has the hash {missing[0]}: it was accepted, or has changed again."
        raise ToolError(f"{problem} Nothing was accepted; look at it again.", code="conflict")
    return [change for change in changes if change.sha256 in hashes]


def _accept_changes(lock: DefinitionLock, changes: list[DefinitionChange], *, as_json: bool) -> None:
    for change in changes:
        tools = [] if change.tool is None else [change.tool]
        lock.accept(change.namespace, *tools, reviewed_hashes=[change.sha256])
        if as_json or not is_terminal(sys.stdout):
            record = {
                "accepted": change.name,
                "server": change.namespace,
                "tool": change.tool,
                "sha256": change.sha256,
                "summary": change.summary,
            }
            sys.stdout.write(json_line(record))
        else:
            print_notice(f"Accepted {change.summary}", "green")


def _ask_about_each(lock: DefinitionLock, changes: list[DefinitionChange]) -> int:
    """Ask about the changes until the person leaves; the exit code tells whether one was refused."""
    codes = [EXIT_DONE]
    for change in changes:
        codes.append(_ask_about_change(lock, change))
        if codes[-1] == EXIT_PENDING:
            return EXIT_PENDING
    return max(codes)


def _ask_about_change(lock: DefinitionLock, change: DefinitionChange) -> int:
    """Show the whole change, and accept it if the person says yes."""
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
    """The options that locate the lock file, for another command."""
    options: list[str] = []
    if config:
        options += ["-c", config]
    if path:
        options += ["--lock", path]
    return options
