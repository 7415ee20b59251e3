"""Invocation of handlers: the only place where foreign code runs. Whatever it returns or raises becomes an Outcome."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeAlias

from surehand.core.content import BLOCK_TYPES, Block, Json, parse_blocks
from surehand.core.context import RunningCall
from surehand.core.errors import ToolError
from surehand.core.handler import StartHandler
from surehand.core.outcome import Done, Failed, Outcome, Pending

Invoker: TypeAlias = Callable[[RunningCall], Awaitable[Outcome]]
RedactText: TypeAlias = Callable[[str], str]
"""Masks the secrets in a text; a `Redactor` of `redaction.py` is one."""

OutcomeFilter: TypeAlias = Callable[[Any, Outcome], Awaitable[Outcome]]
"""Changes the outcome of a running call before the stages around `invoke` see it, for example to redact secrets."""

_OTHER_PLAIN_TYPES = frozenset({float, bool, type(None)})
"""Types, beside `int` and `str`, whose values are results as they are: they hold no secret and always fit into JSON."""
_INT64_LIMIT = 1 << 63  # larger integers cannot be serialized by every JSON library
_new_object = object.__new__
_set_attribute = object.__setattr__
log = logging.getLogger("surehand")


def build_invoker(
    name: str,
    start: StartHandler,
    *,
    redact: RedactText | None = None,
    crash_details: bool = True,
    max_plain_chars: int = 1_000_000,
    outcome_filters: Sequence[OutcomeFilter] = (),
) -> Invoker:
    """A function that runs the handler of one tool and returns its outcome.

    Args:
        crash_details: whether the model sees the message of an exception that is not a `ToolError`.
        max_plain_chars: a string of at most this length skips the filters, as numbers, booleans and None do. They
            have nothing to change there, and most calls return such a value.
    """

    async def invoke(call: RunningCall) -> Outcome:
        try:
            value = await start(call)
        except KeyboardInterrupt:  # Ctrl-C is meant for the program, not for the tool that happens to run
            raise
        except BaseException as error:  # noqa: BLE001 - foreign code: whatever it raises becomes an outcome
            outcome = _outcome_from_error(name, error, call, redact, crash_details)
        else:
            value_type = type(value)
            if value_type is int:
                is_plain = -_INT64_LIMIT < value < _INT64_LIMIT
            elif value_type is str:
                is_plain = len(value) <= max_plain_chars
            else:
                is_plain = value_type in _OTHER_PLAIN_TYPES
            if is_plain:
                done = _new_object(Done)  # the same as `Done(value)`, in half the time
                _set_attribute(done, "data", value)
                return done
            outcome = outcome_from_value(name, value)
        for outcome_filter in outcome_filters:
            outcome = await outcome_filter(call, outcome)
        return outcome

    return invoke


def _outcome_from_error(
    name: str, error: BaseException, call: RunningCall, redact: RedactText | None, crash_details: bool
) -> Outcome:
    """The outcome of any exception. `SystemExit` and exception groups too: a handler cannot stop the runtime."""
    if isinstance(error, ToolError):
        return failed_from_error(error)
    if isinstance(error, GeneratorExit):  # the handler's coroutine was closed, or it raised this itself
        return Failed("cancelled", f"{name} was ended.", executed=True)
    if isinstance(error, asyncio.CancelledError):
        # Only a cancellation from outside may propagate. A handler can raise CancelledError on its own, for example
        # when it awaits a task that was cancelled.
        if call.cancelled or _is_task_cancelling():
            raise error
        return Failed("cancelled", f"{name} cancelled itself.", executed=True)
    return failed_from_crash(name, error, redact=redact, crash_details=crash_details)


def _is_task_cancelling() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def failed_from_error(error: ToolError) -> Failed:
    """The outcome of a `ToolError`, with its code and message."""
    failed = Failed(error.code, str(error), executed=error.executed, data=error.data, retry_after=error.retry_after)
    return failed.with_cause(_cause_of(error))


def failed_from_crash(
    name: str, error: BaseException, *, redact: RedactText | None = None, crash_details: bool = True
) -> Failed:
    """The outcome of an unexpected exception: its type and the first line of its message, never a traceback.

    If the message contains such a line, `data` holds the type alone, for readers who may not see the message.
    """
    _log_crash(name, error, redact)
    exception_type = type(error).__name__
    message_line = _first_message_line(error, redact) if crash_details else ""
    description = exception_type
    data = None
    if message_line:
        description = f"{exception_type}: {message_line}"[:500]
        data = {"exception": exception_type}
    message = f"{name} crashed with {description}. Try other arguments, or another way"
    return Failed("crashed", message, executed=True, data=data).with_cause(_cause_of(error))


def _cause_of(error: BaseException) -> BaseException:
    """The exception that `unwrap` raises its error from.

    That is the cause of a handler's own `ToolError`, because `unwrap` raises a `ToolError` of the same message itself.
    """
    # The first frame is ours, and it holds the outcome: kept, exception and outcome would keep each other alive.
    if error.__traceback__ is not None:
        error = error.with_traceback(error.__traceback__.tb_next)
    if isinstance(error, ToolError) and not error.tool and error.__cause__ is not None:
        return error.__cause__
    return error


def _first_message_line(error: BaseException, redact: RedactText | None) -> str:
    try:
        # Redact before the text is cut into lines: a secret may have several lines.
        text = redact(str(error)) if redact else str(error)
        return next(iter(text.strip().splitlines()), "")
    except Exception:  # noqa: BLE001 - `__str__` of the exception is foreign code too
        return ""


def _log_crash(name: str, error: BaseException, redact: RedactText | None) -> None:
    """Log the whole traceback for the developer, with secrets redacted."""
    if redact is None:
        log.error("%s crashed", name, exc_info=error)
    else:
        from traceback import format_exception  # imported on first use: needed only where secrets are redacted

        log.error("%s crashed\n%s", name, redact("".join(format_exception(error))))


def outcome_from_value(name: str, value: Any) -> Outcome:
    """The outcome of a returned value: an outcome, content blocks, or any value that JSON can hold."""
    if isinstance(value, Done):
        if _is_marked_as_error(value):
            return _failed_from_metadata(name, value)
        done = value.evolve()  # a copy: the outcome of a nested call keeps its own `meta`
    elif isinstance(value, Pending):
        return value.evolve()
    elif isinstance(value, Failed):
        return value.evolve(executed=True)
    elif isinstance(value, (Iterator, AsyncIterator)):  # it may never end
        hint = "return a list, or write the tool itself as a generator"
        return Failed("crashed", f"{name} returned {type(value).__name__}: {hint}", executed=True)
    else:
        done = done_from_value(value)
    try:
        return done.serialize_data()
    except Exception as error:
        log.error("%s returned a value that cannot be serialized as JSON", name, exc_info=error)
        data_type = type(done.data).__name__
        reason = next(iter(str(error).splitlines()), "")[:200]
        message = f"{name} returned {data_type}, which cannot be written as JSON ({reason})"
        return Failed("crashed", message, executed=True, data={"exception": type(error).__name__})


def _is_marked_as_error(done: Done) -> bool:
    """Whether a result says in its metadata that it is an error; the status `pending` asks the host for help."""
    metadata = done.metadata
    return bool(metadata) and bool(metadata.get("error")) and metadata.get("status") != "pending"


def _failed_from_metadata(name: str, done: Done) -> Failed:
    """The failure that a handler returned as a result with `metadata.error`.

    Its `data` is that of the result, or, if that is only the text of the message, the metadata.
    """
    unmarked = outcome_from_value(name, done.evolve(metadata={}))
    if isinstance(unmarked, Failed):  # its data cannot be serialized
        return unmarked
    error = str(done.metadata["error"])
    has_text = done.has_own_content or done.data not in (None, "")
    data = dict(done.metadata) if done.data is None or isinstance(done.data, str) else done.data
    return Failed("failed", unmarked.text if has_text else error, executed=True, data=data)


def done_from_value(value: Any) -> Done:
    """The outcome of a plain value: a value that consists of content blocks becomes the content."""
    # A list of anything but blocks, the usual result, is recognised by its first item.
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    if not isinstance(first, (dict, *BLOCK_TYPES)) or (isinstance(first, dict) and "type" not in first):
        return Done(value)
    blocks = parse_blocks(value)
    if blocks is None:
        return Done(value)
    done = Done(content=blocks)
    return done.evolve(data=_data_from_blocks(blocks, done.text))


def with_block_content(done: Done) -> Done:
    """The outcome with its data as content, if that consists of content blocks: clients send plain dictionaries."""
    parsed = done if done.has_own_content else done_from_value(done.data)
    if parsed is done or not parsed.has_own_content:
        return done
    return done.evolve(data=parsed.data, content=parsed.content)


def _data_from_blocks(blocks: tuple[Block, ...], text: str) -> Any:
    values = [block.data for block in blocks if isinstance(block, Json)]
    return values[0] if len(values) == 1 else text
