"""The log on stderr: `--log LEVEL` of every command, `log: LEVEL` in the configuration, and a line for each call."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from surehand.cli.exit_codes import YELLOW, print_problem

LOG_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "off": logging.CRITICAL + 1,
}
"""The levels by name. From `info` down, each call is logged as a line."""
MAX_LOGGED_CHARS = 160
"""Characters of one argument in the log."""
_CYAN = 36
_LOGGER_NAME = "surehand"
_CALL_LOGGER_NAME = "surehand.calls"


class StderrLogHandler(logging.Handler):
    """Prints records as lines on stderr; a record with a traceback only at the level `debug`, or with --debug."""

    def emit(self, record: logging.LogRecord) -> None:
        is_debugging = logging.getLogger(_LOGGER_NAME).level == logging.DEBUG
        if record.exc_info and not is_debugging:  # the outcome of the call reports the crash
            return
        message = escape_message(self.format(record))
        if record.levelno >= logging.WARNING:
            print_problem(message, prefix="warning", ansi_colour=YELLOW)
        else:
            print_problem(message, prefix=record.levelname.lower(), ansi_colour=_CYAN)


@contextmanager
def log_on_stderr() -> Iterator[None]:
    """Print the runtime's log on stderr while a command runs: its warnings, unless a level is set."""
    log = logging.getLogger(_LOGGER_NAME)
    handler = StderrLogHandler(logging.WARNING)
    previous_level, previous_propagate = log.level, log.propagate
    log.addHandler(handler)
    log.propagate = False  # else a handler of the root logger would print each record a second time
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(previous_level)
        log.propagate = previous_propagate


def set_log_level(name: str) -> None:
    """Log from this level on."""
    log = logging.getLogger(_LOGGER_NAME)
    log.setLevel(LOG_LEVELS[name])
    for handler in log.handlers:
        if isinstance(handler, StderrLogHandler):
            handler.setLevel(LOG_LEVELS[name])


def use_configured_level(name: str | None) -> None:
    """Set the level of the configuration, unless the command line has set one."""
    context = click.get_current_context(silent=True)
    is_set = context is not None and (context.obj.get("log") or context.obj["debug"])
    if name is not None and not is_set:
        set_log_level(name)


def log_calls(runtime: Any) -> None:
    """Log a line for each call of a runtime, if the level asks for it; with `debug` also what was requested."""
    from surehand.core.events import CallEnded, CallStarted, Event  # --version must not load them

    log = logging.getLogger(_CALL_LOGGER_NAME)
    handlers = logging.getLogger(_LOGGER_NAME).handlers
    if not any(isinstance(handler, StderrLogHandler) and handler.level <= logging.INFO for handler in handlers):
        return

    def log_call(event: Event) -> None:
        if isinstance(event, CallStarted) and log.isEnabledFor(logging.DEBUG):
            arguments = _preview_arguments(event.arguments)
            log.debug("%s requested: %s, call %s", event.tool[:200], arguments, event.call_id)
        if not isinstance(event, CallEnded):
            return
        meta = event.outcome.meta
        is_failure = not event.outcome.ok and not _waiting_for(event.outcome)
        log.log(
            logging.WARNING if is_failure else logging.INFO,
            "%s %s: %.0f ms, %d characters in, %d out, call %s",
            event.tool[:200],
            _status(event.outcome),
            meta.latency_ms,
            meta.characters_in,
            meta.characters_out,
            event.call_id,
        )

    runtime.listen(log_call)


def _preview_arguments(arguments: Any) -> str:
    """The arguments of a call as one line; long values are cut."""
    if not isinstance(arguments, Mapping):
        return repr(arguments)[:MAX_LOGGED_CHARS] if arguments else "no arguments"
    shown = [f"{name}={repr(value)[:MAX_LOGGED_CHARS]}" for name, value in arguments.items()]
    return ", ".join(shown) or "no arguments"


def _status(outcome: Any) -> str:
    if outcome.ok:
        return "ok"
    if waiting_for := _waiting_for(outcome):
        return f"waits for {waiting_for}"
    return "failed" if outcome.code == "failed" else f"failed ({outcome.code})"


def _waiting_for(outcome: Any) -> str | None:
    """What a pending call waits for; None if the call has ended."""
    return getattr(outcome, "waiting_for", None)


def add_log_option(command: click.Command) -> click.Command:
    """Give a command the option `--log`; a group, if it runs without a subcommand, and all its commands."""
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            add_log_option(subcommand)
    runs_itself = not isinstance(command, click.Group) or command.invoke_without_command
    if runs_itself and not any(parameter.name == "log" for parameter in command.params):
        command.params.append(
            click.Option(
                ["--log"],
                type=click.Choice(list(LOG_LEVELS)),
                metavar="LEVEL",
                expose_value=False,
                callback=_use_option,
                help="Log on stderr from this level on: debug, info (a line for each call), warning, error or off.",
            )
        )
    return command


def _use_option(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        set_log_level(value)
        ctx.obj["log"] = value


def escape_message(text: str) -> str:
    """Escape control characters and indent further lines: the message may quote a server or a tool."""
    # Imported here: the module takes a while to load, and only messages need it.
    from surehand.core.sanitize import escape_unprintable

    return escape_unprintable(text).replace("\n", "\n  ")
