"""The click group of all commands, and the one place that turns errors into messages and exit codes."""

from __future__ import annotations

import io
import os
import sys
import traceback
from importlib import import_module
from typing import Any

import click

from surehand import __version__
from surehand.cli.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, YELLOW, CommandExit, print_problem
from surehand.cli.stderr_log import add_log_option, escape_message, log_on_stderr
from surehand.core.names import nearest_names

COMMANDS = (
    "tools", "describe", "call", "chat", "run", "pending", "approve", "reject", "settle", "calls", "show", "cancel",
    "grants", "revoke", "store", "audit", "lock", "login", "logout", "serve", "work", "mcp", "config", "doctor", "init",
)  # fmt: skip


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code; report its errors on stderr."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
        # In a pipe Python takes the encoding of the locale, perhaps ASCII. A lone surrogate must not end the command.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    settings: dict[str, Any] = {"debug": False}
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
            print_problem(escape_message(command_exit.message))
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
            return add_log_option(command)

        def resolve_command(
            self, ctx: click.Context, args: list[str]
        ) -> tuple[str | None, click.Command | None, list[str]]:
            if args[0] not in COMMANDS and not args[0].startswith("-"):
                nearest = nearest_names(args[0], COMMANDS, 1)
                hint = f"Did you mean {nearest[0]!r}?" if nearest else "To call a tool, use `surehand call`."
                ctx.fail(f"No such command {args[0]!r}. {hint}")
            return super().resolve_command(ctx, args)

    group = Commands(help="One runtime under any agent: find, describe and call tools.", name="surehand")
    return click.version_option(__version__, message="surehand %(version)s")(group)
