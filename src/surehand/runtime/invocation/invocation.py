"""Invocation: the mutable state of one call while it passes through the pipeline.

Every stage reads and writes it; handlers see it through `Context`, and user middleware gets it as its first argument.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from surehand.catalogue.catalogue import Catalogue
from surehand.catalogue.listing import Listing
from surehand.core.call import NO_DISPLAY, Arguments, Call, CallerFields, CallIdentity, Principal, ScopeFolders
from surehand.core.clock import Clock
from surehand.core.content import to_text
from surehand.core.errors import FailureCode
from surehand.core.events import Listener
from surehand.core.ids import new_id
from surehand.core.outcome import CallMeta, Done, Failed, Outcome
from surehand.core.threads import HandlerThreads
from surehand.runtime.invocation.approval import Approval
from surehand.runtime.invocation.claim import NO_CLAIM, Claim, ClaimState
from surehand.runtime.invocation.execution import NO_EXECUTION, STARTED_EXECUTION, Execution
from surehand.runtime.invocation.interruption import Interruption
from surehand.runtime.invocation.object_tokens import ObjectTokens
from surehand.runtime.invocation.request import PLAIN_REQUEST, CallRequest, SiblingIds
from surehand.runtime.invocation.resumption import NO_RESUMPTION, ReceivedAnswer, Resumption
from surehand.runtime.invocation.space_message import NO_MESSAGE, SpaceMessage
from surehand.runtime.invocation.stored_call import NOT_STORED, EndTemplate, StoredCall
from surehand.runtime.invocation.waits import NO_WAITS, Waits
from surehand.runtime.lifespans import Lifespans
from surehand.runtime.limits.budget import Budget
from surehand.runtime.running_calls import RunningCalls
from surehand.runtime.runtime_store import RuntimeStore

if TYPE_CHECKING:
    from surehand.store.store import Store
    from surehand.store.tables.ledger import LedgerRow

T = TypeVar("T")
_PERF_COUNTER_EPOCH = time.time() - time.perf_counter()
MAX_NESTING_DEPTH = 32
"""Limit on nested calls: a tool that calls itself fails here instead of exhausting the memory."""
MAX_UNKNOWN_NAME_LENGTH = 200
"""Characters of an unknown tool's name in events, journal and messages."""


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
    """One call: the facts of its request, and a few values that say how far it has come.

    The values do not change: a new one takes the place of the last. Their defaults live on the class: `Scope.call`
    creates a plain call without `__init__`, and sets its scope, name and raw arguments only.
    """

    # What was asked for

    request: CallRequest = PLAIN_REQUEST
    listing: Listing
    arguments: dict[str, Any]
    """The validated arguments, as the handler receives them."""
    is_repaired: bool = False
    """Whether the arguments had to be corrected before they could be validated."""
    assigned_id: str | None = None
    """The id, once it was given or generated; reading `id` generates one."""
    is_standalone: bool = False
    """A call of a tool without a runtime is; an invocation never."""

    # How far it has come

    claim: Claim = NO_CLAIM
    """Whether this process owns the call in the ledger, and how far it has come there."""
    resumption: Resumption = NO_RESUMPTION
    """What the call continues with, if it was pending."""
    execution: Execution = NO_EXECUTION
    """How the run of its handler goes."""
    stored: StoredCall = NOT_STORED
    """What the store has of it."""
    message: SpaceMessage = NO_MESSAGE
    """The message that shows the call in its space."""
    interruption: Interruption | None = None
    """Set while the call can be interrupted."""
    waits: Waits = NO_WAITS
    """How long it has waited for its slot and for people."""
    started_perf_counter: float = 0.0
    latency_seconds: float = 0.0
    _siblings_inside: SiblingIds | None = None
    """The calls that its handler makes: none of them follows another."""

    def __init__(
        self,
        scope: CallScope,
        requested_name: str,
        raw_arguments: Arguments,
        request: CallRequest = PLAIN_REQUEST,
        call_id: str | None = None,
    ) -> None:
        self.scope = scope
        self.requested_name = requested_name
        self.raw_arguments = raw_arguments
        self.request = request
        self.assigned_id = call_id

    @property
    def id(self) -> str:
        """The call's id, generated on first use."""
        if self.assigned_id is None:
            self.assigned_id = new_id()
        return self.assigned_id

    def drop_id(self) -> None:
        """Forget an id that cannot be used; the call gets another one."""
        self.assigned_id = None

    @property
    def tool_name(self) -> str:
        """The tool's full name; the name as called, cut to 200 characters, if there is no such tool."""
        return self.listing.name if hasattr(self, "listing") else str(self.requested_name)[:MAX_UNKNOWN_NAME_LENGTH]

    @property
    def principal(self) -> Principal:
        return self.scope.principal

    @property
    def environment(self) -> CallEnvironment:
        """What the runtime gives to the call while it runs."""
        return self.scope.environment

    @property
    def is_new(self) -> bool:
        """Whether the ledger can have no row of the call: its id was not given, and it never waited."""
        return not (self.request.has_given_id or self.resumption.round)

    @property
    def has_given_id(self) -> bool:
        """Whether the caller supplied the id."""
        return self.request.has_given_id

    @property
    def is_resumed(self) -> bool:
        """Whether the call was restored from the store, and now continues after an answer."""
        return self.request.made_by == "store"

    @property
    def parent(self) -> str | None:
        """The id of the call that this one is nested in."""
        return self.request.parent

    @property
    def answer(self) -> Done | Failed | None:
        """The answer to the call's last question, if it continues with one."""
        answer = self.resumption.answer
        return None if answer is None else answer.value

    @property
    def is_waiting_for_answer(self) -> bool:
        """Whether the caller itself waits for the answer to its pending call."""
        return self.interruption is not None and self.interruption.answer_future is not None

    @property
    def identity(self) -> CallIdentity:
        """Whose call it is, for its events, waits and stored rows."""
        intent, display = self.presentation
        return CallIdentity(self.request.parent, self.request.model_id, intent, display, *self.scope.caller_fields)

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
        return self.environment.workspace

    @property
    def memory_dir(self) -> str | None:
        return self.scope.folders.memory_dir

    @property
    def session_dir(self) -> str | None:
        return self.scope.folders.session_dir

    @property
    def threads(self) -> HandlerThreads:
        return self.environment.threads

    @property
    def clock(self) -> Clock:
        return self.environment.running.clock

    @property
    def call(self) -> Call:
        """The call as a value, with its validated arguments."""
        return self.call_as(self.tool_name)

    def call_as(self, tool_name: str) -> Call:
        """The call as a value under another tool name, such as the one its provider uses."""
        identity = {"id": self.id, "parent": self.request.parent, "model_id": self.request.model_id}
        call = object.__new__(Call)  # like `Call(tool, arguments, ...)`, in a quarter of the time
        arguments = self.__dict__.get("arguments", self.raw_arguments)
        call.__dict__.update(self.scope.principal_fields, tool=tool_name, arguments=arguments, **identity)
        return call

    def effective_arguments(self) -> dict[str, Any]:
        """The validated arguments with the tool's defaults: policy judges a default like a value that was sent."""
        return {**self.listing.tool.defaults, **self.arguments}

    def find_value(self, value_type: type[T]) -> T | None:
        """The nearest value of a type: from the tool's own lifespan, then from the scopes."""
        mounted = self.environment.lifespans.value_of(self.listing.tool)
        return mounted if isinstance(mounted, value_type) else self.scope.find_value(value_type)

    async def call_tool(self, tool: str, arguments: Arguments, timeout: float | None) -> Outcome:
        """Run another tool as a nested call of this one."""
        request = self.request
        if request.nesting_depth >= MAX_NESTING_DEPTH:
            problem = f"calls are nested {MAX_NESTING_DEPTH} deep already. Call the tool from further out."
            return Failed("limit_exceeded", problem)
        if self._siblings_inside is None and self.principal.session is not None:
            self._siblings_inside = {}
        inner_request = CallRequest(
            parent=self.id,
            priority=request.priority,
            timeout=timeout,
            nesting_depth=request.nesting_depth + 1,
            siblings=self._siblings_inside,
        )
        inner = Invocation(self.scope, tool, arguments, inner_request)
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
        return await self.environment.store.open()

    def set_active_space(self, space: str | None) -> None:
        """Show the later visible calls of this agent and session in another space, or in none."""
        self.scope.set_active_space(space)

    async def enter_space(self, space: str | None) -> None:
        """The same, in every process on the store."""
        await self.scope.enter_space(space)

    def report(self, update: Mapping[str, Any]) -> None:
        """Emit a progress event; safe to call from the handler's thread."""
        progress = self.environment.progress
        if not progress.is_wanted(self):
            return
        loop = self.environment.running.event_loop
        if loop is not None and _is_other_thread(loop):
            loop.call_soon_threadsafe(progress.emit, self, dict(update))
        else:
            progress.emit(self, dict(update))

    def add_queued_seconds(self, seconds: float) -> None:
        """Count the time that the call has waited for its slot."""
        self.waits = self.waits._replace(queued_seconds=self.waits.queued_seconds + seconds)

    @contextmanager
    def waiting_for_person(self) -> Iterator[None]:
        """Measure the time in which the call waits for a person."""
        self.waits = self.waits._replace(person_wait_started_at=self.clock.now())
        try:
            yield
        finally:
            self.waits = self.waits._replace(person_seconds=self.person_seconds, person_wait_started_at=None)

    @property
    def is_waiting_for_person(self) -> bool:
        """Whether the call waits for a person, and its caller with it."""
        return self.waits.person_wait_started_at is not None

    @property
    def person_seconds(self) -> float:
        """How long the call has waited for people while its caller waited too."""
        waits = self.waits
        if waits.person_wait_started_at is None:
            return waits.person_seconds
        return waits.person_seconds + self.clock.now() - waits.person_wait_started_at

    # How far it has come: the verbs of the stages

    def repair(self, arguments: dict[str, Any]) -> None:
        """Run with arguments that were corrected."""
        self.arguments = arguments
        self.is_repaired = True

    def edit(self, raw_arguments: Arguments, arguments: dict[str, Any]) -> None:
        """Run with arguments that a person has edited, as they gave them and as they were validated."""
        self.raw_arguments = raw_arguments
        self.arguments = arguments

    def detach_arguments(self, raw_arguments: Arguments) -> None:
        """Use a copy of the arguments as they were given: the caller may change its own."""
        self.raw_arguments = raw_arguments

    def move_claim(self, state: ClaimState, *, fence: int | None = None) -> None:
        """Set the claim's state, and its fence if given."""
        claim = self.claim if fence is None else self.claim.with_fence(fence)
        self.claim = claim.to(state)

    def hold_claim(self, fence: int) -> None:
        """The ledger records this runtime as the one that runs the call."""
        self.claim = Claim(ClaimState.CLAIMED, fence)

    def begin_release(self) -> None:
        """Begin to release the claim: until that is written, no other invocation may claim the call."""
        self.claim = Claim(ClaimState.CLAIMING)

    def finish_release(self) -> None:
        """The claim was released."""
        self.claim = NO_CLAIM

    def resume_with(self, claim: Claim, *, approval: Approval | None, answer: ReceivedAnswer | None) -> None:
        """Continue with the answer to the last question, under the claim that comes with it."""
        self.claim = claim
        self.resumption = Resumption(self.resumption.round, approval, answer)

    def refuse_approval(self, note: str) -> None:
        """Ask a person again: the approval does not hold any more."""
        self.resumption = replace(self.resumption, approval=None, note=note)

    def note_rejection(self, approval: Approval) -> None:
        """Keep who rejected the call."""
        self.resumption = replace(self.resumption, approval=approval)

    def take_answer(self) -> ReceivedAnswer | None:
        """The answer that a provider continues with; from here on the call runs, and has none."""
        answer = self.resumption.answer
        self.resumption = replace(self.resumption, answer=None)
        return answer

    def wait_again(self, round: int) -> None:
        """The call waits for the answer to its next question, and no process runs it."""
        self.resumption = replace(self.resumption, round=round)
        self.claim = self.claim.released()

    def without_arguments(self) -> Invocation:
        """A waiting call as this process keeps it: its arguments are in the store, and need no memory here."""
        reduced = Invocation(self.scope, self.requested_name, {}, call_id=self.id)
        reduced.listing = self.listing
        reduced.resumption = Resumption(self.resumption.round)
        return reduced

    def note_row(self, row: LedgerRow) -> None:
        """The call has, or will have, this row in the ledger."""
        self.stored = self.stored._replace(row=row)

    def note_template(self, template: EndTemplate) -> None:
        """The row of the call comes from prepared ones, and so will its end."""
        self.stored = self.stored._replace(end_template=template)

    def note_repeat_key(self, key: str) -> None:
        """What the call is recognised by if it is repeated."""
        self.stored = self.stored._replace(repeat_key=key)

    def set_message(self, message: SpaceMessage) -> None:
        """Keep what is known of the message that shows the call in its space."""
        self.message = message

    @property
    def may_have_executed(self) -> bool:
        """Whether the handler may have run."""
        return self.execution.may_have_executed

    @property
    def attempt(self) -> int:
        """1 for the first attempt, more after a retry."""
        return self.execution.attempt

    @property
    def cancelled(self) -> bool:
        """Whether this attempt was cancelled or timed out."""
        return self.execution.is_cancelled

    def start_handler(self) -> None:
        """From here on the handler may have run."""
        execution = self.execution
        if not execution.may_have_executed:
            self.execution = (
                STARTED_EXECUTION if execution is NO_EXECUTION else execution._replace(may_have_executed=True)
            )

    def cancel_handler(self) -> None:
        """Let the handler see that its attempt was cancelled or timed out."""
        self.execution = self.execution._replace(is_cancelled=True)

    def start_next_attempt(self) -> None:
        """Count a retry."""
        self.execution = self.execution._replace(attempt=self.execution.attempt + 1, is_cancelled=False)

    def set_single_run_outcome(self, outcome: Outcome) -> None:
        """Keep the outcome of the single run: running the handler again returns it."""
        self.execution = self.execution._replace(outcome=outcome)

    def note_outcome_source(self, source: Literal["cache", "full queue", "store failure"]) -> None:
        """Note that the outcome does not come from the handler."""
        self.execution = self.execution._replace(ended_by=source)

    # Interruptions

    def make_interruptible(self) -> None:
        """Register the current task, so that `cancel` and the caller's timeout can interrupt the call."""
        if self.interruption is not None:
            return
        task = asyncio.current_task()
        if task is None:
            return
        running = self.environment.running
        if task.get_loop() is not running.event_loop:
            raise running.wrong_loop_error()
        self.interruption = Interruption(task)
        running.calls.add(self)

    def start_caller_timeout(self) -> None:
        """Start the timer for the caller's own limit on the whole call."""
        self.make_interruptible()
        message = f"{self.listing.name} timed out after {self.request.timeout:g} s, waiting included."
        if self.interruption is not None:
            clock = self.environment.running.clock
            on_due = partial(self.interrupt, "timed_out", message)
            self.interruption.start_timer(clock, self.request.timeout or 0.0, on_due)

    def seconds_left(self) -> float | None:
        """Seconds until the caller's own time limit; None if it set none."""
        if self.interruption is None or self.interruption.deadline is None:
            return None
        return self.interruption.deadline - self.clock.now()

    @property
    def is_repeatable_agent_call(self) -> bool:
        """Whether this is an agent call whose caller was cancelled: the same id may be called again."""
        can_repeat_id = self.request.has_given_id and not self.resumption.round
        return can_repeat_id and self.listing.kind == "agent" and self.interruption_reason is None

    @property
    def interruption_reason(self) -> tuple[FailureCode, str] | None:
        """Code and message with which the runtime itself stopped the call."""
        return None if self.interruption is None else self.interruption.reason

    def interruption_outcome(self) -> Failed | None:
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
        self.environment.running.end(self, outcome)

    def interrupt(self, code: FailureCode, message: str) -> None:
        """Stop the call from outside: because of `cancel`, or because the caller's timeout expired."""
        if self.interruption is not None:
            self.interruption.interrupt(code, message)
            if self.interruption.reason is not None:
                self.cancel_handler()

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

    def build_meta(self, outcome: Outcome) -> CallMeta:
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
            queued_ms=self.waits.queued_seconds * 1000,
            attempts=self.execution.attempt,
            cached=self.execution.ended_by == "cache",
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
