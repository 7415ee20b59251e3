"""The command `toolwright`. Only the command that runs is imported: `toolwright --version` stays light."""

from __future__ import annotations

import io
import logging
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module

from toolwright import __version__
from toolwright.cli.exits import DONE, FAILED, INTERRUPTED, USAGE, Ended, complain

try:
    import click
except ModuleNotFoundError:  # said in `main`, in words
    click = None  # type: ignore[assignment]  # nothing below is reached then

COMMANDS = ("tools", "describe", "call", "init")
EXTRA = {"click", "rich", "yaml"}
MISSING = "The command line needs a few more packages: pip install 'toolwright[cli]'"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    if click is None:
        complain(MISSING)
        sys.exit(USAGE)
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: list[str]) -> int:
    """The exit code; every way to end is turned into words here, and nowhere else."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    settings = {"debug": False}
    try:
        with log_on_stderr():
            ended = group().main(arguments, prog_name="toolwright", standalone_mode=False, obj=settings)
        return ended if isinstance(ended, int) else DONE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        complain("the command was interrupted", kind="cancelled")
        return INTERRUPTED
    except Ended as ended:
        if ended.problem:
            complain(ended.problem)
        if settings["debug"] and ended.__cause__ is not None:
            traceback.print_exception(ended.__cause__)
        return ended.code
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        complain(MISSING)
        return USAGE
    except BrokenPipeError:
        sys.stderr.close()
        return FAILED


def group() -> click.Group:
    """The command with its subcommands, each imported when it is asked for."""

    class Commands(click.Group):
        def list_commands(self, ctx: click.Context) -> list[str]:
            return list(COMMANDS)

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            if cmd_name not in COMMANDS:
                return None
            found = import_module(f"toolwright.cli.{cmd_name}").command
            assert isinstance(found, click.Command)
            return found

    made = Commands(help="One runtime under any agent: find, describe and call tools.", name="toolwright")
    return click.version_option(__version__, message="toolwright %(version)s")(made)


class _Told(logging.Handler):
    """Warnings of the runtime, as a line on stderr; tracebacks only for those who debug."""

    def emit(self, record: logging.LogRecord) -> None:
        debugging = logging.getLogger("toolwright").level == logging.DEBUG
        if debugging or not record.exc_info:  # a crash is told by its outcome
            complain(self.format(record), kind="warning", colour=33)


@contextmanager
def log_on_stderr() -> Iterator[None]:
    """Show what the runtime has to say."""
    log, told = logging.getLogger("toolwright"), _Told(logging.WARNING)
    before = log.level, log.propagate
    log.addHandler(told)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(told)
        log.level, log.propagate = before


if __name__ == "__main__":
    main()
