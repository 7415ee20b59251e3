"""Invoking: the only place where a handler's own code runs, and where all that it may do becomes an Outcome."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeAlias

from surehand.core.content import BLOCK_TYPES, Block, Json
from surehand.core.context import RunningCall
from surehand.core.errors import ToolError
from surehand.core.handler import StartHandler
from surehand.core.outcome import Done, Failed, Outcome, Pending

Invoker: TypeAlias = Callable[[RunningCall], Awaitable[Outcome]]
Redactor: TypeAlias = Callable[[str], str]

OutcomeFilter: TypeAlias = Callable[[Any, Outcome], Awaitable[Outcome]]
"""Something that is done with an outcome before anybody sees it."""

SCALAR_TYPES = frozenset({float, bool, type(None)})
_INT64_LIMIT = 1 << 63
_new_object, _set_attribute = object.__new__, object.__setattr__
log = logging.getLogger("surehand")


def build_invoker(
    name: str,
    start: StartHandler,
    *,
    redact: Redactor | None = None,
    crash_details: bool = True,
    max_plain_chars: int = 1_000_000,
    outcome_filters: Sequence[OutcomeFilter] = (),
) -> Invoker:
    """How one tool is invoked. `details=False` keeps a crash's message from the model.

    `ways_out` see every outcome but plain numbers, flags and strings of at most `short` characters: for those they
    have nothing to do, and a call that needs nothing should cost nothing.
    """

    async def invoke(running: RunningCall) -> Outcome:
        try:
            value = await start(running)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - foreign code: whatever it raises is an outcome
            outcome = _outcome_from_error(name, error, running, redact, crash_details)
        else:
            kind = type(value)
            if (
                -_INT64_LIMIT < value < _INT64_LIMIT
                if kind is int
                else len(value) <= max_plain_chars
                if kind is str
                else kind in SCALAR_TYPES
            ):
                plain = _new_object(Done)  # `Done(value)`, in half the time
                _set_attribute(plain, "data", value)
                return plain
            outcome = outcome_from_value(name, value)
        for way_out in outcome_filters:
            outcome = await way_out(running, outcome)
        return outcome

    return invoke


def _outcome_from_error(
    name: str, error: BaseException, call: RunningCall, redact: Redactor | None, crash_details: bool
) -> Outcome:
    """sys.exit and exception groups too: a handler cannot end the runtime."""
    if isinstance(error, ToolError):
        return failed_from_error(error)
    if isinstance(error, GeneratorExit):  # the handler was ended by force, or pretends to be
        return Failed("cancelled", f"{name} was ended.", executed=True)
    if isinstance(error, asyncio.CancelledError):
        if call.cancelled or _is_task_cancelling():
            raise error
        return Failed("cancelled", f"{name} cancelled itself.", executed=True)
    return failed_from_crash(name, error, redact=redact, crash_details=crash_details)


def _is_task_cancelling() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def failed_from_error(error: ToolError) -> Failed:
    """What a handler raised for the model to read."""
    return Failed(error.code, str(error), executed=error.executed, data=error.data, retry_after=error.retry_after)


def failed_from_crash(
    name: str, error: BaseException, *, redact: Redactor | None = None, crash_details: bool = True
) -> Failed:
    """What a model is shown of a bug: its type and the first line of its message, never a traceback.

    Where there is such a line, `data` has the type alone, for those who may be shown no more.
    """
    _log_crash(name, error, redact)
    kind = type(error).__name__
    line = _first_message_line(error, redact) if crash_details else ""
    shown, data = (f"{kind}: {line}"[:500], {"exception": kind}) if line else (kind, None)
    told = f"{name} crashed with {shown}. The same call will most likely crash again"
    return Failed("crashed", told, executed=True, data=data)


def _first_message_line(error: BaseException, redact: Redactor | None) -> str:
    try:
        text = redact(str(error)) if redact else str(error)  # first: a secret may have several lines
        return next(iter(text.strip().splitlines()), "")
    except Exception:  # noqa: BLE001 - the error's own code, and no better than the handler's
        return ""


def _log_crash(name: str, error: BaseException, redact: Redactor | None) -> None:
    """The whole traceback, for the developer; secrets are nobody's to read, there either."""
    if redact is None:
        log.error("%s crashed", name, exc_info=error)
    else:
        from traceback import format_exception  # loaded by those alone who have secrets to keep

        log.error("%s crashed\n%s", name, redact("".join(format_exception(error))))


def outcome_from_value(name: str, value: Any) -> Outcome:
    """What a handler returned: an outcome, blocks of content, or any value that JSON can hold."""
    if isinstance(value, Done):
        done = value.evolve()  # a copy: an outcome that came from a nested call keeps its own measurements
    elif isinstance(value, Pending):
        return value.evolve()
    elif isinstance(value, Failed):
        return value.evolve(executed=True)
    elif isinstance(value, (Iterator, AsyncIterator)):  # it may never end
        hint = "return a list, or write the tool itself as a generator"
        return Failed("crashed", f"{name} returned {type(value).__name__}: {hint}", executed=True)
    else:
        done = _done_from_blocks(value) or Done(value)
    try:
        return done.serialize_data()
    except Exception as error:
        log.error("%s returned what cannot be written as JSON", name, exc_info=error)
        kind = type(done.data).__name__
        why = next(iter(str(error).splitlines()), "")[:200]
        told = f"{name} returned {kind}, which cannot be written as JSON ({why})"
        return Failed("crashed", told, executed=True, data={"exception": type(error).__name__})


def _done_from_blocks(value: Any) -> Done | None:
    blocks = (value,) if isinstance(value, BLOCK_TYPES) else value
    if not isinstance(blocks, (list, tuple)) or not blocks or not all(isinstance(b, BLOCK_TYPES) for b in blocks):
        return None
    made = Done(content=blocks)
    return made.evolve(data=_data_from_blocks(blocks, made.text))


def _data_from_blocks(blocks: list[Block] | tuple[Block, ...], text: str) -> Any:
    values = [block.data for block in blocks if isinstance(block, Json)]
    return values[0] if len(values) == 1 else text
