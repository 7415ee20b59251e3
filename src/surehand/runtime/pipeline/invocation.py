"""Invocation: one call on its way through the pipeline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from surehand.catalogue.listing import Listing
from surehand.core.call import Arguments, Call, Principal
from surehand.core.clock import Timer
from surehand.core.content import to_text
from surehand.core.errors import FailureCode, NotStarted
from surehand.core.events import CallProgress
from surehand.core.ids import new_id
from surehand.core.outcome import CallMeta, Done, Failed, Outcome, WaitingFor
from surehand.core.threads import HandlerThreads

if TYPE_CHECKING:
    from surehand.runtime.durability.call_record import RecordTemplate
    from surehand.runtime.pending.approval import Approval
    from surehand.runtime.scope import Scope
    from surehand.store.store import Store
    from surehand.store.tables.ledger import LedgerRow
    from surehand.store.tables.pending import RoundAnswer

T = TypeVar("T")
_PERF_COUNTER_EPOCH = time.time() - time.perf_counter()
MAX_NESTING_DEPTH = 32
"""Calls within calls; a tool that calls itself ends here, and not when the memory does."""


class Invocation:
    """One call on its way. What few calls change has its default on the class: a plain call sets three attributes."""

    listing: Listing
    arguments: dict[str, Any]
    """The checked arguments, as the handler takes them."""
    model_id: str | None = None
    parent: str | None = None
    caller_timeout: float | None = None
    """Seconds for everything, where the caller set a limit."""
    answer_future: asyncio.Future[Any] | None = None
    """Set while the caller waits for a person's answer."""
    is_repaired: bool = False
    """Whether the arguments were no plain JSON, and were understood all the same."""
    has_given_id: bool = False
    """Whether the caller gave the id, so that the call can be recalled."""
    is_dispatched: bool = False
    """Whether a person runs it, and not a model."""
    is_resumed: bool = False
    """Whether it waited for somebody and now goes on."""
    approval: Approval | None = None
    """Set by the runtime alone: a caller cannot approve itself."""
    answer_value: Done | Failed | None = None
    """What the wait was for: it takes the place of running the handler."""
    waited_for: WaitingFor | None = None
    handler_outcome: Outcome | None = None
    """What the one run of a call that is not repeatable came to."""
    provider_state: Any = None
    """A provider's private note, given back with the answer."""
    nesting_depth: int = 0
    """How many calls it is nested in."""
    round: int = 0
    """How many waits this call has been through."""
    attempt: int = 1
    is_cached: bool = False
    may_have_run: bool = False
    """Whether the handler may have run."""
    cancelled: bool = False
    interruption_reason: tuple[FailureCode, str] | None = None
    """Why the runtime itself stopped the call."""
    started_perf_counter: float = 0.0
    latency_seconds: float = 0.0
    queued_seconds: float = 0.0
    on_end: Callable[[Outcome], object] | None = None
    """Whoever answered a waiting caller is told how the call ended."""
    on_settled: Callable[[Invocation], None] | None = None
    """Called once the answer that ends the call is written."""
    fence: int | None = None
    """The number under which this runtime holds the call in the ledger."""
    is_claimed: bool = False
    """Whether the ledger says that this runtime runs it."""
    is_claiming: bool = False
    """Whether it is about to be claimed, or is."""
    is_handler_running: bool = False
    """Whether its handler runs at this moment."""
    record_template: RecordTemplate | None = None
    """The rows of a plain call, filled in but for what it adds itself."""
    round_answer: RoundAnswer | None = None
    """The answer that ends the call; written together with the outcome."""
    ledger_row: LedgerRow | None = None
    """The call as the ledger keeps it, once it does."""
    message_id: str | None = None
    """The message that shows the call in its space."""
    message_status: str | None = None
    """What that message says of how it stands."""
    is_outcome_recorded: bool = False
    """Whether its outcome is in the ledger."""
    runs_elsewhere: bool = False
    """Whether it is not run now, because the same call runs already or goes on later."""
    has_lost_race: bool = False
    """Whether somebody else wrote the outcome first."""
    is_journalled: bool = False
    is_standalone = False
    assigned_id: str | None = None
    """The id, once it was given or asked for; `id` makes one."""
    task: asyncio.Task[Any] | None = None
    """The task that the call runs in, while it can be interrupted."""
    _cancelling_before: int = 0
    _own_cancellations: int = 0
    _caller_timer: Timer | None = None
    _event_loop: asyncio.AbstractEventLoop | None = None

    def __init__(self, scope: Scope, requested_name: str, raw_arguments: Arguments) -> None:
        self.scope = scope
        self.requested_name = requested_name
        self.raw_arguments = raw_arguments

    @property
    def id(self) -> str:
        """The call's id, made when somebody first asks for it."""
        if self.assigned_id is None:
            self.assigned_id = new_id()
        return self.assigned_id

    @property
    def tool_name(self) -> str:
        return self.listing.name if hasattr(self, "listing") else self.requested_name

    @property
    def principal(self) -> Principal:
        return self.scope.principal

    @property
    def state(self) -> dict[str, Any]:
        return self.scope.state

    @property
    def workspace(self) -> str:
        return self.scope.services.workspace

    @property
    def memory_dir(self) -> str | None:
        return self.scope.folders.memory_dir

    @property
    def session_dir(self) -> str | None:
        return self.scope.folders.session_dir

    @property
    def threads(self) -> HandlerThreads:
        return self.scope.services.threads

    @property
    def call(self) -> Call:
        """The call as a value, with its checked arguments."""
        return self.call_as(self.tool_name)

    def call_as(self, tool_name: str) -> Call:
        """The same under another name of its tool: that which its provider knows it by."""
        own = {"id": self.id, "parent": self.parent, "model_id": self.model_id}
        call = object.__new__(Call)  # `Call(tool, arguments, **own, **about)`, in a quarter of the time
        arguments = self.__dict__.get("arguments", self.raw_arguments)
        call.__dict__.update(self.scope.principal_fields, tool=tool_name, arguments=arguments, **own)
        return call

    def effective_arguments(self) -> dict[str, Any]:
        """The arguments that the handler will run with: a default is judged like a value that was sent."""
        return {**self.listing.tool.defaults, **self.arguments}

    def find_value(self, value_type: type[T]) -> T | None:
        """The nearest value of that type: from the tool's own lifespan, then from the scopes."""
        mounted = self.scope.services.lifespans.value_of(self.listing.tool)
        return mounted if isinstance(mounted, value_type) else self.scope.find_value(value_type)

    async def call_tool(self, tool: str, arguments: Arguments, timeout: float | None) -> Outcome:
        """Another call, as part of this one."""
        if self.nesting_depth >= MAX_NESTING_DEPTH:
            problem = f"calls are nested {MAX_NESTING_DEPTH} deep already. Call the tool from further out."
            return Failed("limit_exceeded", problem)
        inner = Invocation(self.scope, tool, arguments)
        inner.parent, inner.caller_timeout, inner.nesting_depth = self.id, timeout, self.nesting_depth + 1
        return await self.scope.run_invocation(inner)

    async def open_store(self) -> Store:
        """What the runtime remembers."""
        return await self.scope.services.open_store()

    def set_active_space(self, space: str | None) -> None:
        """Show the later visible calls of this agent and session in another space, or in none."""
        self.scope.set_active_space(space)

    def report(self, update: Mapping[str, Any]) -> None:
        """Tell listeners of progress, from whichever thread the handler runs in."""
        if not self.scope.services.listeners.callbacks:
            return
        loop = self._event_loop
        if loop is not None and _is_other_thread(loop):
            loop.call_soon_threadsafe(self._emit_progress, dict(update))
        else:
            self._emit_progress(dict(update))

    def _emit_progress(self, update: dict[str, Any]) -> None:
        known = {name: update.pop(name, None) for name in ("message", "fraction", "title")}
        at = self.scope.services.clock.time()
        event = CallProgress(self.id, self.tool_name, **known, data=update, at=at)
        self.scope.services.listeners.emit(event)

    def make_interruptible(self) -> None:
        """The call is about to wait: from now on it can be interrupted."""
        if self.task is None and (task := asyncio.current_task()) is not None:
            loop, parts = task.get_loop(), self.scope.services
            if loop is not parts.event_loop:
                raise _wrong_loop_error(parts.is_open)
            self.task, self._event_loop, self._cancelling_before = task, loop, task.cancelling()
            parts.running_calls.add(self)

    def start_caller_timeout(self) -> None:
        """The caller's own time limit, for everything."""
        self.make_interruptible()
        message = f"{self.listing.name} timed out after {self.caller_timeout:g} s, waiting included."
        clock = self.scope.services.clock
        self._caller_timer = clock.call_later(self.caller_timeout or 0.0, self.interrupt, "timed_out", message)

    def take_back_cancellation(self) -> bool:
        """Whether it was the runtime, and nobody else, that cancelled the caller; takes that back."""
        if self.interruption_reason is None or self.task is None or not self._own_cancellations:
            return False
        while self._own_cancellations:
            self._own_cancellations -= 1
            left = self.task.uncancel()
        if left <= self._cancelling_before:
            return True
        self.interruption_reason = None  # somebody else cancelled the caller too, and that one is heard
        return False

    def take_interruption(self) -> Failed:
        """Why the runtime stopped the call."""
        code, message = self.interruption_reason or ("cancelled", "")
        self.interruption_reason = None
        return Failed(code, message, executed=self.may_have_run)

    def finish(self, outcome: Outcome) -> None:
        """The call no longer waits."""
        if self.interruption_reason is not None:  # it ended in the same moment: its outcome counts
            self.take_back_cancellation()
        if self._caller_timer is not None:
            self._caller_timer.cancel()
        self.task = None
        self.scope.services.running_calls.discard(self)
        if self.on_end is not None:
            self.on_end(outcome)

    def interrupt(self, code: FailureCode, message: str) -> None:
        """Stop the call from outside: by its id, or because its caller's time is up."""
        if code == "timed_out" and self.answer_future is not None:
            # The caller has no patience left: it is told that the call is pending, and the wait stays open.
            if not self.answer_future.done():
                self.answer_future.set_result(None)
        elif self.task is not None:
            # Again, if it was stopped before and goes on in spite of it; what it is told is the first reason.
            self.interruption_reason, self.cancelled = self.interruption_reason or (code, message), True
            if self._event_loop is not None and self.task is _current_task():
                # Asked for by the call's own task: were it cancelled on the spot, a call that ends without waiting
                # again would leave the cancellation to its caller.
                self._event_loop.call_soon(self._cancel_task)
            else:
                self._cancel_task()

    def _cancel_task(self) -> None:
        if self.task is not None:
            self._own_cancellations += 1
            self.task.cancel()

    def elapsed_seconds(self) -> float:
        """Seconds since the call began, or that it took."""
        return self.latency_seconds or (
            time.perf_counter() - self.started_perf_counter if self.started_perf_counter else 0.0
        )

    @property
    def started_at(self) -> float:
        """Seconds since the epoch."""
        return _PERF_COUNTER_EPOCH + self.started_perf_counter

    def measure(self, outcome: Outcome) -> CallMeta:
        """How the call went."""
        listing = self.__dict__.get("listing")
        characters = len(outcome.text)
        return CallMeta(
            call_id=self.id,
            tool=self.tool_name,
            kind=listing.kind if listing else "",
            namespace=listing.namespace if listing else "",
            started_at=self.started_at,
            latency_ms=self.latency_seconds * 1000,
            queued_ms=self.queued_seconds * 1000,
            attempts=self.attempt,
            cached=self.is_cached,
            characters_in=_count_characters(self.raw_arguments),
            characters_out=characters,
            tokens=-(-characters // 4),
        )


def _count_characters(raw_arguments: Any) -> int:
    if isinstance(raw_arguments, (str, bytes)):
        return len(raw_arguments)
    try:
        return len(to_text(raw_arguments or {}))
    except ValueError:  # arguments that were refused need not be JSON at all
        return 0


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # from a thread without a loop
        return None


def _wrong_loop_error(is_open: bool) -> NotStarted:
    if is_open:
        return NotStarted("The runtime belongs to another event loop. Call it there, or open one here.")
    return NotStarted("The runtime is not running. Use `async with Runtime(...) as runtime:`.")


def _is_other_thread(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is not loop
    except RuntimeError:
        return True
