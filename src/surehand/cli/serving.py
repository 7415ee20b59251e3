"""What the commands that serve have in common: `surehand serve` and `surehand mcp`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from surehand.catalogue.listing import Listing
from surehand.cli.exit_codes import EXIT_FAILED, EXIT_USAGE, YELLOW, CommandExit, print_problem
from surehand.cli.formatting import to_one_line
from surehand.cli.lifecycle import exit_on_store_error
from surehand.core.errors import Unavailable
from surehand.core.extras import install_command
from surehand.runtime.runtime import Runtime

_SILENCED_LOGGERS = ("mcp", "uvicorn", "sse_starlette", "starlette")


def print_stderr(*lines: str) -> None:
    """Print lines on stderr at once."""
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()


def warn_without_store(runtime: Runtime, warning: str) -> None:
    """Warn once if a tool may need an approval that cannot be given later, because there is no store."""
    if runtime.is_durable:
        return
    has_warned = False

    def check_tools() -> None:
        nonlocal has_warned
        if not has_warned and any(_may_need_approval(runtime, listing) for listing in runtime.catalogue):
            has_warned = True
            print_problem(warning, prefix="warning", ansi_colour=YELLOW)

    check_tools()
    _ = runtime.catalogue.watch(check_tools)  # providers may add tools later


def _may_need_approval(runtime: Runtime, listing: Listing) -> bool:
    """Whether calls of a tool may need an approval."""
    rules = runtime.policy.rules_for(listing)
    return listing.tool.safety.confirm is not False or any(rule.decision == "ask" for rule in rules)


@contextmanager
def exit_on_serve_error() -> Iterator[None]:
    """Turn errors of the server into the end of the command."""
    try:
        with exit_on_store_error():
            yield
    except Unavailable as error:
        raise CommandExit(EXIT_USAGE, f"The tools cannot be started: {error}") from error
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        problem = f"Serving needs {missing}: {install_command('mcp', 'server')}"
        raise CommandExit(EXIT_USAGE, problem) from error
    except BaseExceptionGroup as error:
        raise CommandExit(EXIT_FAILED, f"The server ended: {error.exceptions[0]}") from error


class _CrashLogHandler(logging.Handler):
    """Prints one line about a crashed tool; --debug shows its traceback instead."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and logging.getLogger("surehand").level != logging.DEBUG:
            error_type, error, _ = record.exc_info
            type_name = error_type.__name__ if error_type else ""
            first_line = next(iter(str(error).splitlines()), "")
            message = f"{record.getMessage()}: {type_name}: {first_line} (--debug shows all of it)"
            print_problem(to_one_line(message), prefix="warning", ansi_colour=YELLOW)


@contextmanager
def log_crashes() -> Iterator[None]:
    """Report crashed tools on stderr, because this command prints no outcomes."""
    log = logging.getLogger("surehand")
    handler = _CrashLogHandler(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


@contextmanager
def silence_library_logs() -> Iterator[None]:
    """Silence the libraries' logs, unless with --debug: clients are told about their own mistakes."""
    logs = [logging.getLogger(name) for name in _SILENCED_LOGGERS]
    previous_levels = [log.level for log in logs]
    if not click.get_current_context().obj["debug"]:
        for log in logs:
            log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for log, level in zip(logs, previous_levels, strict=True):
            log.setLevel(level)
