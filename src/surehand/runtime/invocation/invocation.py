"""Invocation: the mutable state of one call while it passes through the pipeline.

Every stage reads and writes it; handlers see it through `Context`, and user middleware gets it as its first argument.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.listing import Listing
from surehand.core.call import NO_DISPLAY, Arguments, Call, CallerFields, CallIdentity, Principal, ScopeFolders
from surehand.core.content import to_text
from surehand.core.errors import FailureCode
from surehand.core.events import Listener
from surehand.core.ids import new_id
from surehand.core.outcome import CallMeta, Failed, Outcome
from surehand.core.threads import HandlerThreads
from surehand.runtime.invocation.claim import NO_CLAIM, Claim
from surehand.runtime.invocation.interruption import Interruption
from surehand.runtime.invocation.object_tokens import ObjectTokens
from surehand.runtime.invocation.resumption import NO_RESUMPTION, Resumption
from surehand.runtime.invocation.space_message import NO_MESSAGE, SpaceMessage
from surehand.runtime.lifespans import Lifespans
from surehand.runtime.limits.budget import Budget
from surehand.runtime.running_calls import RunningCalls
from surehand.runtime.runtime_store import RuntimeStore

if TYPE_CHECKING:
    from surehand.store.database import Statement
    from surehand.store.store import Store
    from surehand.store.tables.ledger import LedgerRow

T = TypeVar("T")
_PERF_COUNTER_EPOCH = time.time() - time.perf_counter()
MAX_NESTING_DEPTH = 32
"""Limit on nested calls: a tool that calls itself fails here instead of exhausting the memory."""
MAX_UNKNOWN_NAME_LENGTH = 200
"""Characters of an unknown tool's name in events, journal and messages."""


class EndTemplate(Protocol):
    """Prepared rows for the end of a plain durable call."""

    def end_statements(self, call_id: str, outcome: str, code: str, latency_ms: float) -> list[Statement]: ...


class ProgressSink(Protocol):
    """Receives the progress that handlers report."""

    def is_wanted(self, invocation: Invocation) -> bool: ...
    def emit(self, invocation: Invocation, update: dict[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class CallEnvironment:
    """What a runtime gives to each of its calls while it runs, in whatever scope it was made."""

    workspace: str
    threads: HandlerThreads
    lifespans: Lifespans
    running: RunningCalls
    store: RuntimeStore
    progress: ProgressSink
    object_tokens: ObjectTokens


SiblingIds: TypeAlias = dict[str, list[str]]
"""The ids of calls that are made together, by their keys."""


class CallScope(Protocol):
    """What a call knows of the scope that it was made in. `Scope`, with the public verbs, is one."""

    principal: Principal
    principal_fields: dict[str, str | None]
    caller_fields: CallerFields
    has_session: bool
    host_space: str | None
    """The space that the host made active; `principal.space` differs from it where the agent entered another."""
    scope_name: str | None
    """The name by which other processes build the same scope again."""
    scope_in_entered_space: CallScope | None
    state: dict[str, Any]
    folders: ScopeFolders
    budget: Budget | None
    priority: int | None
    offered_values: tuple[Any, ...]
    own_catalogue: Catalogue | None
    approver: Callable[[Any], Awaitable[Any]] | None
    """Asked about a pending call before the runtime's own approver."""
    environment: CallEnvironment

    def find(self, name: str) -> Listing | None: ...
    def find_session_tool(self, name: str) -> Listing | None: ...
    def find_value(self, value_type: type[T]) -> T | None: ...
    def may_use(self, listing: Listing, *, for_person: bool = False) -> bool: ...
    def usable_listings(self, *, for_person: bool = False) -> list[Listing]: ...
    def listen(self, callback: Listener) -> Callable[[], None]: ...
    def set_active_space(self, space: str | None) -> None: ...
    async def enter_space(self, space: str | None) -> None: ...
    def in_space(self, space: str | None) -> CallScope: ...
    def stack_for_call(self, invocation: Invocation) -> NextStage: ...
    def stack_for_listing(self, listing: Listing, invocation: Invocation) -> NextStage: ...


class Invocation:
    """The state of one call. Defaults live on the class, so that a plain call sets only three attributes."""

    # What was asked for

    listing: Listing
    arguments: dict[str, Any]
    """The validated arguments, as the handler receives them."""
    is_repaired: bool = False
    """Whether `repair` had to correct the arguments before they could be validated."""
    assigned_id: str | None = None
    """The id, once it was given or generated; reading `id` generates one."""
    has_given_id: bool = False
    """Whether the caller supplied the id, so that `recall` can look the call up."""
    model_id: str | None = None
    parent: str | None = None
    nesting_depth: int = 0
    """Number of calls that this one is nested in."""
    priority: int | None = None
    """The call's own priority in its queue; None takes that of its scope or tool."""
    caller_timeout: float | None = None
    """Seconds for the whole call, queueing and retries included, if the caller set a limit."""
    is_dispatched: bool = False
    """Whether a person made the call with `dispatch`, not a model."""
    is_standalone = False

    # What the stages know of it

    claim: Claim = NO_CLAIM
    """Whether this process owns the call in the ledger, and how far it has come there."""
    resumption: Resumption = NO_RESUMPTION
    """What the call continues with, if it was pending."""
    is_resumed: bool = False
    """Whether the call was restored from the store, and now continues after an answer."""
    message: SpaceMessage = NO_MESSAGE
    """The message that shows the call in its space."""
    interruption: Interruption | None = None
    """Set while the call can be interrupted."""
    repeat_key: str | None = None
    """What the call is recognised by if it is repeated, once that was computed."""
    siblings: SiblingIds | None = None
    """The calls that are made together with this one: none of them follows another."""
    nested_siblings: SiblingIds | None = None
    """The same for the calls that its handler makes."""
    ledger_row: LedgerRow | None = None
    """The call's row in the ledger, once there is one."""
    end_template: EndTemplate | None = None
    """Prepared rows for the end of a plain durable call."""
    handler_outcome: Outcome | None = None
    """The outcome of the single run of a call that is not repeatable."""
    may_have_executed: bool = False
    """Whether the handler may have run; becomes `Failed.executed`."""
    attempt: int = 1
    cancelled: bool = False
    is_cached: bool = False
    is_refused_by_queue: bool = False
    """Whether the call was not let into its queue: `retry` does not try again, which would be waiting too."""
    refused_by: str | None = None
    """Who rejected the call, if the runtime's approver did."""
    deferred_start: Callable[[], None] | None = None
    """Emits `CallStarted`, for a call whose wait must be stored first."""
    is_journalled: bool = False
    has_store_failed: bool = False
    """Whether the store failed in the middle of the call, where no stage has an outcome for that."""
    has_streamed_progress: bool = False
    """Whether progress was added to the streams, which has to be written before the end of the call."""
    started_perf_counter: float = 0.0
    latency_seconds: float = 0.0
    queued_seconds: float = 0.0
    person_seconds_before: float = 0.0
    """How long the call waited for people until now, without the wait that goes on."""
    person_wait_started_at: float | None = None
    """Since when the call waits for a person, and its caller with it."""

    def __init__(self, scope: CallScope, requested_name: str, raw_arguments: Arguments) -> None:
        self.scope = scope
        self.requested_name = requested_name
        self.raw_arguments = raw_arguments

    @property
    def id(self) -> str:
        """The call's id, generated on first use."""
        if self.assigned_id is None:
            self.assigned_id = new_id()
        return self.assigned_id

    @property
    def tool_name(self) -> str:
        """The tool's full name; the name as called, cut to a sane length, if there is no such tool."""
        return self.listing.name if hasattr(self, "listing") else str(self.requested_name)[:MAX_UNKNOWN_NAME_LENGTH]

    @property
    def principal(self) -> Principal:
        return self.scope.principal

    @property
    def is_new(self) -> bool:
        """Whether the ledger can have no row of the call: its id was not given, and it never waited."""
        return not (self.has_given_id or self.resumption.round)

    @property
    def is_waiting_for_answer(self) -> bool:
        """Whether the caller itself waits for the answer to its pending call."""
        return self.interruption is not None and self.interruption.answer_future is not None

    @property
    def identity(self) -> CallIdentity:
        """Whose call it is, for its events, waits and stored rows."""
        intent, display = self.presentation
        return CallIdentity(self.parent, self.model_id, intent, display, *self.scope.caller_fields)

    @property
    def presentation(self) -> tuple[str | None, Mapping[str, Any]]:
        """Intent and display of the call's tool; None and an empty mapping for an unknown one."""
        listing = self.__dict__.get("listing")
        if listing is None:
            return None, NO_DISPLAY
        presentation = listing.tool.presentation
        return presentation.intent, presentation.display

    @property
    def state(self) -> dict[str, Any]:
        return self.scope.state

    @property
    def workspace(self) -> str:
        return self.scope.environment.workspace

    @property
    def memory_dir(self) -> str | None:
        return self.scope.folders.memory_dir

    @property
    def session_dir(self) -> str | None:
        return self.scope.folders.session_dir

    @property
    def threads(self) -> HandlerThreads:
        return self.scope.environment.threads

    @property
    def call(self) -> Call:
        """The call as a value, with its validated arguments."""
        return self.call_as(self.tool_name)

    def call_as(self, tool_name: str) -> Call:
        """The call as a value under another tool name, such as the one its provider uses."""
        identity = {"id": self.id, "parent": self.parent, "model_id": self.model_id}
        call = object.__new__(Call)  # like `Call(tool, arguments, ...)`, in a quarter of the time
        arguments = self.__dict__.get("arguments", self.raw_arguments)
        call.__dict__.update(self.scope.principal_fields, tool=tool_name, arguments=arguments, **identity)
        return call

    def effective_arguments(self) -> dict[str, Any]:
        """The validated arguments with the tool's defaults: policy judges a default like a value that was sent."""
        return {**self.listing.tool.defaults, **self.arguments}

    def find_value(self, value_type: type[T]) -> T | None:
        """The nearest value of a type: from the tool's own lifespan, then from the scopes."""
        mounted = self.scope.environment.lifespans.value_of(self.listing.tool)
        return mounted if isinstance(mounted, value_type) else self.scope.find_value(value_type)

    async def call_tool(self, tool: str, arguments: Arguments, timeout: float | None) -> Outcome:
        """Run another tool as a nested call of this one."""
        if self.nesting_depth >= MAX_NESTING_DEPTH:
            problem = f"calls are nested {MAX_NESTING_DEPTH} deep already. Call the tool from further out."
            return Failed("limit_exceeded", problem)
        inner = Invocation(self.scope, tool, arguments)
        inner.parent = self.id
        inner.priority = self.priority
        inner.caller_timeout = timeout
        inner.nesting_depth = self.nesting_depth + 1
        if self.principal.session is not None:
            if self.nested_siblings is None:
                self.nested_siblings = {}
            inner.siblings = self.nested_siblings
        return await self.scope.stack_for_call(inner)(inner)

    def find_tool(self, name: str) -> Listing | None:
        """Find a tool that this call's scope may use, or that people may use in it."""
        listing = self.scope.find(name)
        return listing if listing is not None and self.scope.may_use(listing, for_person=True) else None

    def list_tools(self) -> list[Listing]:
        """The tools that this call's scope may use."""
        return self.scope.usable_listings()

    async def open_store(self) -> Store:
        """The runtime's store, opened on first use."""
        return await self.scope.environment.store.open()

    def set_active_space(self, space: str | None) -> None:
        """Show the later visible calls of this agent and session in another space, or in none."""
        self.scope.set_active_space(space)

    async def enter_space(self, space: str | None) -> None:
        """The same, in every process on the store."""
        await self.scope.enter_space(space)

    def emit_deferred_start(self) -> None:
        """Emit `CallStarted`, if that was put off."""
        emit, self.deferred_start = self.deferred_start, None
        if emit is not None:
            emit()

    def report(self, update: Mapping[str, Any]) -> None:
        """Emit a progress event; safe to call from the handler's thread."""
        progress = self.scope.environment.progress
        if not progress.is_wanted(self):
            return
        loop = self.scope.environment.running.event_loop
        if loop is not None and _is_other_thread(loop):
            loop.call_soon_threadsafe(progress.emit, self, dict(update))
        else:
            progress.emit(self, dict(update))

    @contextmanager
    def waiting_for_person(self) -> Iterator[None]:
        """Measure the time in which the call waits for a person."""
        self.person_wait_started_at = self.scope.environment.running.clock.now()
        try:
            yield
        finally:
            self.person_seconds_before = self.person_seconds
            self.person_wait_started_at = None

    @property
    def is_waiting_for_person(self) -> bool:
        """Whether the call waits for a person, and its caller with it."""
        return self.person_wait_started_at is not None

    @property
    def person_seconds(self) -> float:
        """How long the call has waited for people while its caller waited too."""
        if self.person_wait_started_at is None:
            return self.person_seconds_before
        now = self.scope.environment.running.clock.now()
        return self.person_seconds_before + now - self.person_wait_started_at

    def make_interruptible(self) -> None:
        """Register the current task, so that `cancel` and the caller's timeout can interrupt the call."""
        if self.interruption is not None:
            return
        task = asyncio.current_task()
        if task is None:
            return
        running = self.scope.environment.running
        if task.get_loop() is not running.event_loop:
            raise running.wrong_loop_error()
        self.interruption = Interruption(task)
        running.calls.add(self)

    def start_caller_timeout(self) -> None:
        """Start the timer for the caller's own limit on the whole call."""
        self.make_interruptible()
        message = f"{self.listing.name} timed out after {self.caller_timeout:g} s, waiting included."
        if self.interruption is not None:
            clock = self.scope.environment.running.clock
            on_due = partial(self.interrupt, "timed_out", message)
            self.interruption.start_timer(clock, self.caller_timeout or 0.0, on_due)

    def seconds_left(self) -> float | None:
        """Seconds until the caller's own time limit; None if it set none."""
        if self.interruption is None or self.interruption.deadline is None:
            return None
        return self.interruption.deadline - self.scope.environment.running.clock.now()

    @property
    def can_go_on_later(self) -> bool:
        """Whether a call of an agent that is stopped now can be made again: its caller was stopped, not the call."""
        is_recallable = self.has_given_id and not self.resumption.round
        return is_recallable and self.listing.kind == "agent" and self.interruption_reason is None

    @property
    def interruption_reason(self) -> tuple[FailureCode, str] | None:
        """Code and message with which the runtime itself stopped the call."""
        return None if self.interruption is None else self.interruption.reason

    def take_interruption(self) -> Failed | None:
        """The outcome of a call that the runtime stopped; None if its caller was cancelled from elsewhere."""
        interruption = self.interruption
        if interruption is None or not interruption.take_back_cancellation():
            return None
        return Failed(*interruption.take_reason(), executed=self.may_have_executed)

    def finish(self, outcome: Outcome) -> None:
        """Forget the task: the call has its outcome."""
        if self.interruption is not None:
            self.interruption.end()
            self.interruption = None
        running = self.scope.environment.running
        running.calls.discard(self)
        if running.ends.waiters:
            running.ends.notify(self.assigned_id, outcome)
        if self.resumption.on_end is not None:
            self.resumption.on_end(outcome)

    def interrupt(self, code: FailureCode, message: str) -> None:
        """Stop the call from outside: because of `cancel`, or because the caller's timeout expired."""
        if self.interruption is not None:
            self.interruption.interrupt(code, message)
            self.cancelled = self.cancelled or self.interruption.reason is not None

    def elapsed_seconds(self) -> float:
        """Seconds that the call took, or has taken so far."""
        if self.latency_seconds:
            return self.latency_seconds
        if not self.started_perf_counter:
            return 0.0
        return time.perf_counter() - self.started_perf_counter

    @property
    def started_at(self) -> float:
        """When the call started, in seconds since the epoch."""
        return _PERF_COUNTER_EPOCH + self.started_perf_counter

    def measure(self, outcome: Outcome) -> CallMeta:
        """The metadata of the call and its outcome."""
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


NextStage: TypeAlias = Callable[[Invocation], Coroutine[Any, Any, Outcome]]
"""The rest of the pipeline, as one stage sees it."""


def _count_characters(raw_arguments: Any) -> int:
    if isinstance(raw_arguments, (str, bytes)):
        return len(raw_arguments)
    try:
        return len(to_text(raw_arguments or {}))
    except ValueError:  # rejected arguments need not be valid JSON
        return 0


def _is_other_thread(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is not loop
    except RuntimeError:
        return True
