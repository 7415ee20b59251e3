"""The click group of all commands, and the one place that turns errors into messages and exit codes."""

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
from surehand.cli.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, YELLOW, CommandExit, print_problem

COMMANDS = (
    "tools", "describe", "call", "pending", "approve", "reject", "settle", "calls", "show", "cancel", "grants",
    "revoke", "store", "audit", "lock", "login", "logout", "mcp", "doctor", "init",
)  # fmt: skip


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code; report its errors on stderr."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    settings = {"debug": False}
    try:
        with log_on_stderr():
            result = build_group().main(arguments, prog_name="surehand", standalone_mode=False, obj=settings)
            sys.stdout.flush()
        return result if isinstance(result, int) else EXIT_DONE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        print_problem("the command was interrupted.", prefix="cancelled", ansi_colour=YELLOW)
        return EXIT_INTERRUPTED
    except CommandExit as command_exit:
        if command_exit.message:
            print_problem(_escape_message(command_exit.message))
        if settings["debug"] and command_exit.__cause__ is not None:
            traceback.print_exception(command_exit.__cause__)
        return command_exit.code
    except BrokenPipeError:
        # The reader of our output has exited. Python flushes stdout once more at exit, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED


def build_group() -> click.Group:
    """The group of all commands; the module of a command is imported when the command is used."""

    class Commands(click.Group):
        def list_commands(self, ctx: click.Context) -> list[str]:
            return list(COMMANDS)

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            if cmd_name not in COMMANDS:
                return None
            command = import_module(f"surehand.cli.commands.{cmd_name}").command
            assert isinstance(command, click.Command)
            return command

    group = Commands(help="One runtime under any agent: find, describe and call tools.", name="surehand")
    return click.version_option(__version__, message="surehand %(version)s")(group)


def _escape_message(text: str) -> str:
    """Escape control characters and indent further lines: the message may quote a server or a tool."""
    # Imported here: the module takes a while to load, and only errors need it.
    from surehand.core.sanitize import escape_unprintable

    return escape_unprintable(text).replace("\n", "\n  ")


class _StderrLogHandler(logging.Handler):
    """Prints warnings of the runtime as a line on stderr; records with a traceback only with --debug."""

    def emit(self, record: logging.LogRecord) -> None:
        is_debugging = logging.getLogger("surehand").level == logging.DEBUG
        if is_debugging or not record.exc_info:  # the outcome of the call reports the crash
            print_problem(_escape_message(self.format(record)), prefix="warning", ansi_colour=YELLOW)


@contextmanager
def log_on_stderr() -> Iterator[None]:
    """Print the runtime's log on stderr while a command runs."""
    log = logging.getLogger("surehand")
    handler = _StderrLogHandler(logging.WARNING)
    previous = log.level, log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.level, log.propagate = previous
