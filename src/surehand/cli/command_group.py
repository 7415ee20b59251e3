"""The commands, and every way in which one of them can end."""

from __future__ import annotations

import io
import logging
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import click

from surehand import __version__
from surehand.cli.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, CommandExit, print_problem

COMMANDS = (
    "tools", "describe", "call", "pending", "approve", "reject", "settle", "show", "cancel", "grants", "revoke",
    "store", "audit", "lock", "login", "logout", "mcp", "doctor", "init",
)  # fmt: skip


def run(arguments: list[str]) -> int:
    """The exit code; every way to end is turned into words here, and nowhere else."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    settings = {"debug": False}
    try:
        with log_on_stderr():
            ended = build_group().main(arguments, prog_name="surehand", standalone_mode=False, obj=settings)
            sys.stdout.flush()
        return ended if isinstance(ended, int) else EXIT_DONE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        print_problem("the command was interrupted.", prefix="cancelled", ansi_colour=33)
        return EXIT_INTERRUPTED
    except CommandExit as ended:
        if ended.message:
            print_problem(_escape_message(ended.message))
        if settings["debug"] and ended.__cause__ is not None:
            traceback.print_exception(ended.__cause__)
        return ended.code
    except BrokenPipeError:  # whoever read our output has gone, and Python would complain at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED


def build_group() -> click.Group:
    """The command with its subcommands, each imported when it is asked for."""

    class Commands(click.Group):
        def list_commands(self, ctx: click.Context) -> list[str]:
            return list(COMMANDS)

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            if cmd_name not in COMMANDS:
                return None
            found = import_module(f"surehand.cli.commands.{cmd_name}").command
            assert isinstance(found, click.Command)
            return found

    made = Commands(help="One runtime under any agent: find, describe and call tools.", name="surehand")
    return click.version_option(__version__, message="surehand %(version)s")(made)


def _escape_message(text: str) -> str:
    """Others' words may be in it: they neither act on the terminal nor begin a line of their own."""
    from surehand.core.sanitize import escape_unprintable

    return escape_unprintable(text).replace("\n", "\n  ")


class _StderrLogHandler(logging.Handler):
    """Warnings of the runtime, as a line on stderr; tracebacks only for those who debug."""

    def emit(self, record: logging.LogRecord) -> None:
        debugging = logging.getLogger("surehand").level == logging.DEBUG
        if debugging or not record.exc_info:  # a crash is told by its outcome
            print_problem(_escape_message(self.format(record)), prefix="warning", ansi_colour=33)


@contextmanager
def log_on_stderr() -> Iterator[None]:
    """Show what the runtime has to say."""
    log, told = logging.getLogger("surehand"), _StderrLogHandler(logging.WARNING)
    before = log.level, log.propagate
    log.addHandler(told)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(told)
        log.level, log.propagate = before
