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
from surehand.core.errors import Code, NotStarted
from surehand.core.events import CallProgress
from surehand.core.ids import new_id
from surehand.core.meta import Meta
from surehand.core.outcome import Done, Failed, Outcome, Wait
from surehand.core.threads import Threads

if TYPE_CHECKING:
    from surehand.runtime.approval import Approval
    from surehand.runtime.form import Form
    from surehand.runtime.scope import Scope
    from surehand.store.ledger import Known
    from surehand.store.pending import Answered
    from surehand.store.store import Store

T = TypeVar("T")
_EPOCH = time.time() - time.perf_counter()
MAX_DEPTH = 32
"""Calls within calls; a tool that calls itself ends here, and not when the memory does."""


class Invocation:
    """One call on its way. What few calls change has its default on the class: a plain call sets three attributes."""

    listing: Listing
    arguments: dict[str, Any]
    """The checked arguments, as the handler takes them."""
    model_id: str | None = None
    parent: str | None = None
    timeout: float | None = None
    """Seconds for everything, where the caller set a limit."""
    live: asyncio.Future[Any] | None = None
    """Set while the caller waits for a person's answer."""
    mended: bool = False
    """Whether the arguments were no plain JSON, and were understood all the same."""
    given: bool = False
    """Whether the caller gave the id, so that the call can be recalled."""
    dispatched: bool = False
    """Whether a person runs it, and not a model."""
    resumed: bool = False
    """Whether it waited for somebody and now goes on."""
    approval: Approval | None = None
    """Set by the runtime alone: a caller cannot approve itself."""
    answer: Done | Failed | None = None
    """What the wait was for: it takes the place of running the handler."""
    waited_for: Wait | None = None
    ran: Outcome | None = None
    """What the one run of a call that is not repeatable came to."""
    state_note: Any = None
    """A provider's private note, given back with the answer."""
    depth: int = 0
    """How many calls it is nested in."""
    round: int = 0
    """How many waits this call has been through."""
    attempt: int = 1
    cached: bool = False
    began: bool = False
    """Whether the handler may have run."""
    cancelled: bool = False
    interrupted: tuple[Code, str] | None = None
    """Why the runtime itself stopped the call."""
    started: float = 0.0
    latency: float = 0.0
    queued: float = 0.0
    on_end: Callable[[Outcome], object] | None = None
    """Whoever answered a waiting caller is told how the call ended."""
    on_settled: Callable[[Invocation], None] | None = None
    """Called once the answer that ends the call is written."""
    fence: int | None = None
    """The number under which this runtime holds the call in the ledger."""
    claimed: bool = False
    """Whether the ledger says that this runtime runs it."""
    claims: bool = False
    """Whether it is about to be claimed, or is."""
    busy: bool = False
    """Whether its handler runs at this moment."""
    form: Form | None = None
    """The rows of a plain call, filled in but for what it adds itself."""
    answered: Answered | None = None
    """The answer that ends the call; written together with the outcome."""
    known: Known | None = None
    """The call as the ledger keeps it, once it does."""
    posted: str | None = None
    """The message that shows the call in its space."""
    shown: str | None = None
    """What that message says of how it stands."""
    closed: bool = False
    """Whether its outcome is in the ledger."""
    elsewhere: bool = False
    """Whether it is not run now, because the same call runs already or goes on later."""
    lost: bool = False
    """Whether somebody else wrote the outcome first."""
    journalled: bool = False
    direct = False
    known_id: str | None = None
    """The id, once it was given or asked for; `id` makes one."""
    task: asyncio.Task[Any] | None = None
    """The task that the call runs in, while it can be interrupted."""
    _cancelling: int = 0
    _stops: int = 0
    _timer: Timer | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    def __init__(self, scope: Scope, name: str, raw: Arguments) -> None:
        self.scope = scope
        self.name = name
        self.raw = raw

    @property
    def id(self) -> str:
        """The call's id, made when somebody first asks for it."""
        if self.known_id is None:
            self.known_id = new_id()
        return self.known_id

    @property
    def tool_name(self) -> str:
        return self.listing.name if hasattr(self, "listing") else self.name

    @property
    def principal(self) -> Principal:
        return self.scope.principal

    @property
    def state(self) -> dict[str, Any]:
        return self.scope.state

    @property
    def workspace(self) -> str:
        return self.scope.parts.workspace

    @property
    def threads(self) -> Threads:
        return self.scope.parts.threads

    @property
    def call(self) -> Call:
        """The call as a value, with its checked arguments."""
        return self.call_of(self.tool_name)

    def call_of(self, tool: str) -> Call:
        """The same under another name of its tool: that which its provider knows it by."""
        own = {"id": self.id, "parent": self.parent, "model_id": self.model_id}
        call = object.__new__(Call)  # `Call(tool, arguments, **own, **about)`, in a quarter of the time
        arguments = self.__dict__.get("arguments", self.raw)
        call.__dict__.update(self.scope.call_fields, tool=tool, arguments=arguments, **own)
        return call

    def effective(self) -> dict[str, Any]:
        """The arguments that the handler will run with: a default is judged like a value that was sent."""
        return {**self.listing.tool.defaults, **self.arguments}

    def offered(self, kind: type[T]) -> T | None:
        """The nearest value of that type: from the tool's own lifespan, then from the scopes."""
        mounted = self.scope.parts.mounts.value_of(self.listing.tool)
        return mounted if isinstance(mounted, kind) else self.scope.offered(kind)

    async def nested(self, tool: str, arguments: Arguments, timeout: float | None) -> Outcome:
        """Another call, as part of this one."""
        if self.depth >= MAX_DEPTH:
            problem = f"calls are nested {MAX_DEPTH} deep already. Call the tool from further out."
            return Failed("limit_exceeded", problem)
        inner = Invocation(self.scope, tool, arguments)
        inner.parent, inner.timeout, inner.depth = self.id, timeout, self.depth + 1
        return await self.scope.enter(inner)

    async def remembered(self) -> Store:
        """What the runtime remembers."""
        return await self.scope.parts.remembered()

    def report(self, update: Mapping[str, Any]) -> None:
        """Tell listeners of progress, from whichever thread the handler runs in."""
        if not self.scope.parts.listeners.heard:
            return
        loop = self._loop
        if loop is not None and _other_thread(loop):
            loop.call_soon_threadsafe(self._tell, dict(update))
        else:
            self._tell(dict(update))

    def _tell(self, update: dict[str, Any]) -> None:
        known = {name: update.pop(name, None) for name in ("message", "fraction", "title")}
        at = self.scope.parts.clock.time()
        event = CallProgress(self.id, self.tool_name, **known, data=update, at=at)
        self.scope.parts.listeners.emit(event)

    def suspend(self) -> None:
        """The call is about to wait: from now on it can be interrupted."""
        if self.task is None and (task := asyncio.current_task()) is not None:
            loop, parts = task.get_loop(), self.scope.parts
            if loop is not parts.loop:
                raise _elsewhere(parts.open)
            self.task, self._loop, self._cancelling = task, loop, task.cancelling()
            parts.running.add(self)

    def limit(self) -> None:
        """The caller's own time limit, for everything."""
        self.suspend()
        message = f"{self.listing.name} timed out after {self.timeout:g} s, waiting included."
        clock = self.scope.parts.clock
        self._timer = clock.call_later(self.timeout or 0.0, self.interrupt, "timed_out", message)

    def uncancelled(self) -> bool:
        """Whether it was the runtime, and nobody else, that cancelled the caller; takes that back."""
        if self.interrupted is None or self.task is None or not self._stops:
            return False
        while self._stops:
            self._stops -= 1
            left = self.task.uncancel()
        if left <= self._cancelling:
            return True
        self.interrupted = None  # somebody else cancelled the caller too, and that one is heard
        return False

    def interruption(self) -> Failed:
        """Why the runtime stopped the call."""
        code, message = self.interrupted or ("cancelled", "")
        self.interrupted = None
        return Failed(code, message, executed=self.began)

    def leave(self, outcome: Outcome) -> None:
        """The call no longer waits."""
        if self.interrupted is not None:  # it ended in the same moment: its outcome counts
            self.uncancelled()
        if self._timer is not None:
            self._timer.cancel()
        self.task = None
        self.scope.parts.running.discard(self)
        if self.on_end is not None:
            self.on_end(outcome)

    def interrupt(self, code: Code, message: str) -> None:
        """Stop the call from outside: by its id, or because its caller's time is up."""
        if code == "timed_out" and self.live is not None:
            # The caller has no patience left: it is told that the call is pending, and the wait stays open.
            if not self.live.done():
                self.live.set_result(None)
        elif self.task is not None:
            # Again, if it was stopped before and goes on in spite of it; what it is told is the first reason.
            self.interrupted, self.cancelled = self.interrupted or (code, message), True
            if self._loop is not None and self.task is _current_task():
                # Asked for by the call's own task: were it cancelled on the spot, a call that ends without waiting
                # again would leave the cancellation to its caller.
                self._loop.call_soon(self._stop)
            else:
                self._stop()

    def _stop(self) -> None:
        if self.task is not None:
            self._stops += 1
            self.task.cancel()

    def elapsed(self) -> float:
        """Seconds since the call began, or that it took."""
        return self.latency or (time.perf_counter() - self.started if self.started else 0.0)

    @property
    def started_at(self) -> float:
        """Seconds since the epoch."""
        return _EPOCH + self.started

    def measure(self, outcome: Outcome) -> Meta:
        """How the call went."""
        listing = self.__dict__.get("listing")
        characters = len(outcome.text)
        return Meta(
            call_id=self.id,
            tool=self.tool_name,
            kind=listing.kind if listing else "",
            namespace=listing.namespace if listing else "",
            started_at=self.started_at,
            latency_ms=self.latency * 1000,
            queued_ms=self.queued * 1000,
            attempts=self.attempt,
            cached=self.cached,
            characters_in=_characters(self.raw),
            characters_out=characters,
            tokens=-(-characters // 4),
        )


def _characters(raw: Any) -> int:
    if isinstance(raw, (str, bytes)):
        return len(raw)
    try:
        return len(to_text(raw or {}))
    except ValueError:  # arguments that were refused need not be JSON at all
        return 0


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # from a thread without a loop
        return None


def _elsewhere(running: bool) -> NotStarted:
    if running:
        return NotStarted("The runtime belongs to another event loop. Call it there, or open one here.")
    return NotStarted("The runtime is not running. Use `async with Runtime(...) as runtime:`.")


def _other_thread(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is not loop
    except RuntimeError:
        return True
