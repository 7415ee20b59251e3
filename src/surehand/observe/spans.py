"""Spans: one for every pass of a call through the pipeline, named as OpenTelemetry's GenAI conventions say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer, TracerProvider

from surehand.core.content import to_text
from surehand.core.events import CallEnded, CallPending, CallProgress, CallQueued, CallResumed, CallStarted, Event
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.observe.measure import measured
from surehand.runtime.scope import Scope
from surehand.runtime.unknown import UNKNOWN

# As in the GenAI conventions; they are still in development, and the package with their constants is only in beta.
OPERATION, NAME, CALL_ID = "gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.call.id"
TYPE, DESCRIPTION = "gen_ai.tool.type", "gen_ai.tool.description"
ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
ERROR_TYPE = "error.type"

_EXTENSIONS = frozenset({"mcp", "rest", "hosted"})
"""Kinds that reach for somebody else's system; the conventions call the others functions."""
_MOST_OPEN = 100_000
_MOST_WAITING = 10_000
_LONGEST_TEXT = 1_000


def tracer_of(provider: TracerProvider | None) -> Tracer | None:
    """A tracer that records something; None where spans would go nowhere."""
    provider = provider or trace.get_tracer_provider()
    if isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return None
    tracer = provider.get_tracer("surehand")
    return None if isinstance(tracer, trace.NoOpTracer) else tracer


@dataclass(slots=True, eq=False)
class Pass:
    """One call on its way through the pipeline, in the task that called it."""

    owner: Spans
    call_id: str
    span: Span
    resumed: bool
    outer: Pass | None
    """The pass that was innermost when this one began."""
    entered: Token[Pass | None] | None = None
    attached: Token[Context] | None = None
    ended: bool = False

    def enter(self) -> None:
        """Make the span current, for the handler and all it starts."""
        self.entered = _innermost.set(self)
        self.attached = contexts.attach(trace.set_span_in_context(self.span))


_innermost: ContextVar[Pass | None] = ContextVar("surehand_span", default=None)


def _surrounding() -> Iterator[Pass]:
    """The passes around whatever runs now, innermost first."""
    at = _innermost.get()
    while at is not None:
        yield at
        at = at.outer


def _leave_ended() -> None:
    """Make current again what was so before.

    Context variables go back in the reverse order only. A pass that ends while a later one in the same task is still
    open is left when that one is.
    """
    while (at := _innermost.get()) is not None and at.ended and at.entered is not None and at.attached is not None:
        try:
            _innermost.reset(at.entered)
        except (ValueError, RuntimeError):  # a copy of the context, in a task that outlives the call
            return
        contexts.detach(at.attached)


class Spans:
    """Turns events into spans."""

    def __init__(self, runtime: Scope, tracer: Tracer, max_content: int) -> None:
        self._runtime, self._tracer, self._max_content = runtime, tracer, max_content
        self._redact = runtime.parts.redact or str
        # Without `auto_complete` a call ends when its caller says so, long after other calls may have begun in the
        # same task: those are not part of it, so it must not stay current.
        self._current = runtime.parts.auto_complete
        self._open: dict[str, list[Pass]] = {}
        self._waited: dict[str, tuple[SpanContext, SpanContext]] = {}
        """The first and the latest span of calls that wait."""
        self._unsubscribe: Callable[[], None] | None = None
        self._stopping = False
        self._hearing: dict[type, Callable[[Any], None]] = {
            CallStarted: self._started,
            CallResumed: self._resumed,
            CallQueued: self._queued,
            CallProgress: self._progress,
            CallPending: self._pending,
            CallEnded: self._ended,
        }

    def listen(self) -> Callable[[], None]:
        """Begin; the returned function ends it."""
        self._unsubscribe = self._runtime.listen(self._hear)
        return self._stop

    def _stop(self) -> None:
        """Begin no more spans. Those that are open end with their calls: only there can the context be restored."""
        self._stopping = True
        self._close_when_idle()

    def _close_when_idle(self) -> None:
        if self._stopping and not self._open and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _hear(self, event: Event) -> None:
        if (hears := self._hearing.get(type(event))) is not None:
            hears(event)

    # Beginning

    def _started(self, event: CallStarted) -> None:
        self._begin(event.call_id, event.tool, self._parent(event.parent), event.arguments)

    def _resumed(self, event: CallResumed) -> None:
        first, latest = self._waited.get(event.call_id, (None, None))
        links = [Link(each) for each in (first, latest if latest is not first else None) if each is not None]
        self._begin(event.call_id, event.tool, None, None, links=links, resumed=True)

    def _parent(self, call_id: str | None) -> Context | None:
        """None is whatever is current: outside of any call, or inside the parent's own handler."""
        if call_id is None or any(each.call_id == call_id for each in _surrounding()):
            return None
        passes = self._open.get(call_id)
        return trace.set_span_in_context(passes[0].span) if passes else None

    def _begin(
        self,
        call_id: str,
        tool: str,
        parent: Context | None,
        arguments: Any,
        *,
        links: list[Link] | None = None,
        resumed: bool = False,
    ) -> None:
        if self._stopping:
            return
        listing = self._runtime.catalogue.find(tool)
        attributes: dict[str, str] = {OPERATION: "execute_tool", NAME: tool[:200], CALL_ID: call_id}
        if listing is not None:
            attributes[TYPE] = "extension" if listing.kind in _EXTENSIONS else "function"
            attributes[DESCRIPTION] = listing.tool.description[:_LONGEST_TEXT]
            attributes |= {"surehand.kind": listing.kind, "surehand.namespace": listing.namespace}
        if self._max_content and not resumed:
            attributes[ARGUMENTS] = self._text(arguments)
        name = f"execute_tool {tool if listing else UNKNOWN}"
        span = self._tracer.start_span(name, parent, SpanKind.INTERNAL, attributes, links)
        begun = Pass(self, call_id, span, resumed, _innermost.get() if self._current else None)
        self._open.setdefault(call_id, []).append(begun)
        if self._current:
            begun.enter()
        if len(self._open) > _MOST_OPEN:  # nobody says that they have ended
            self._end(self._open[next(iter(self._open))][0])

    # On the way

    def _queued(self, event: CallQueued) -> None:
        self._note(event.call_id, "queued", {"surehand.queue": event.queue, "surehand.position": event.position})

    def _progress(self, event: CallProgress) -> None:
        """How far it is; what it says is content: a handler that yields its result piece by piece says it so."""
        known: dict[str, Any] = {} if event.fraction is None else {"surehand.fraction": float(event.fraction)}
        if self._max_content:
            said = {"message": event.message, "title": event.title, "data": dict(event.data) or None}
            known |= {f"surehand.{name}": self._text(value) for name, value in said.items() if value is not None}
        self._note(event.call_id, "progress", known)

    def _pending(self, event: CallPending) -> None:
        self._note(event.call_id, "pending", {"surehand.waiting_for": event.waiting_for})

    def _note(self, call_id: str, name: str, attributes: Mapping[str, Any]) -> None:
        if passes := self._open.get(call_id):
            passes[0].span.add_event(name, attributes)

    # Ending

    def _ended(self, event: CallEnded) -> None:
        if (ending := self._ending(event.call_id)) is None:
            _leave_ended()
            return
        try:
            if ending.span.is_recording():
                self._describe(ending.span, event)
            self._remember(ending, event.outcome)
        finally:
            self._end(ending)

    def _ending(self, call_id: str) -> Pass | None:
        """The pass of this task; an id that was given twice may have one in another task too."""
        passes = self._open.get(call_id, ())
        mine = (each for each in _surrounding() if each.owner is self and each.call_id == call_id and not each.ended)
        return next(mine, passes[-1] if passes else None)

    def _describe(self, span: Span, event: CallEnded) -> None:
        meta = measured(event)
        span.set_attributes(
            {
                "surehand.attempts": meta.attempts,
                "surehand.cached": meta.cached,
                "surehand.queued_ms": meta.queued_ms,
                "surehand.characters_in": meta.characters_in,
                "surehand.characters_out": meta.characters_out,
                "surehand.tokens": meta.tokens,
            }
        )
        match event.outcome:
            case Pending(waiting_for):
                span.set_attributes({"surehand.pending": True, "surehand.waiting_for": waiting_for})
            case Failed(code, message):
                span.set_attributes({ERROR_TYPE: code, "surehand.code": code})
                span.set_status(Status(StatusCode.ERROR, self._text(message) if self._max_content else code))
            case Done() as done if self._max_content:
                span.set_attribute(RESULT, self._text(done.text))

    def _remember(self, ending: Pass, outcome: Outcome) -> None:
        if isinstance(outcome, Pending):
            latest = ending.span.get_span_context()
            first, _ = self._waited.pop(ending.call_id, (latest, latest))
            self._waited[ending.call_id] = first, latest
            while len(self._waited) > _MOST_WAITING:
                del self._waited[next(iter(self._waited))]
        elif ending.resumed:
            self._waited.pop(ending.call_id, None)

    def _end(self, ending: Pass) -> None:
        passes = self._open[ending.call_id]
        passes.remove(ending)
        if not passes:
            del self._open[ending.call_id]
        ending.span.end()
        ending.ended = True
        _leave_ended()
        self._close_when_idle()

    def _text(self, value: Any) -> str:
        """Known secrets are masked before it is cut: half a secret would not be known."""
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        try:
            text = value if isinstance(value, str) else to_text(value)
        except Exception:  # noqa: BLE001 - a stranger's objects: writing them may raise anything
            text = f"({type(value).__name__})"
        return self._redact(text)[: self._max_content]
