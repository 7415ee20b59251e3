"""`SpanRecorder`: a span for every pass of a call through the pipeline, by the GenAI conventions of OpenTelemetry.

Imports the OpenTelemetry API, which is optional: only `tracing.py` imports this module.
"""

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
from surehand.observe.ended_call import call_meta
from surehand.runtime.pipeline.refused_calls import UNKNOWN_TOOL_NAME
from surehand.runtime.scope import Scope

# The GenAI conventions are still in development, and the package with their constants is in beta: hence our own.
OPERATION_NAME_ATTRIBUTE = "gen_ai.operation.name"
TOOL_NAME_ATTRIBUTE = "gen_ai.tool.name"
CALL_ID_ATTRIBUTE = "gen_ai.tool.call.id"
TOOL_TYPE_ATTRIBUTE = "gen_ai.tool.type"
TOOL_DESCRIPTION_ATTRIBUTE = "gen_ai.tool.description"
CALL_ARGUMENTS_ATTRIBUTE = "gen_ai.tool.call.arguments"
CALL_RESULT_ATTRIBUTE = "gen_ai.tool.call.result"
ERROR_TYPE_ATTRIBUTE = "error.type"

_EXTENSION_KINDS = frozenset({"mcp", "rest", "hosted"})
"""Kinds of providers that call another system; the conventions call all others functions."""
_MAX_OPEN_CALLS = 100_000
_MAX_WAITING_CALLS = 10_000
_MAX_DESCRIPTION_LENGTH = 1_000


def find_tracer(provider: TracerProvider | None) -> Tracer | None:
    """Return a tracer that records spans; None if they would be discarded."""
    provider = provider or trace.get_tracer_provider()
    if isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return None
    tracer = provider.get_tracer("surehand")
    return None if isinstance(tracer, trace.NoOpTracer) else tracer


@dataclass(slots=True, eq=False)
class CallSpan:
    """The span of one pass of a call through the pipeline, in the task that called it."""

    recorder: SpanRecorder
    call_id: str
    span: Span
    is_resumed: bool
    outer: CallSpan | None
    """The innermost span when this one started."""
    innermost_token: Token[CallSpan | None] | None = None
    context_token: Token[Context] | None = None
    has_ended: bool = False

    def make_current(self) -> None:
        """Make the span current for the handler and everything it starts."""
        # Both tokens have to be reset in the task that set them: a context variable belongs to its task.
        self.innermost_token = _innermost_span.set(self)
        self.context_token = contexts.attach(trace.set_span_in_context(self.span))


_innermost_span: ContextVar[CallSpan | None] = ContextVar("surehand_span", default=None)


def _enclosing_spans() -> Iterator[CallSpan]:
    """Yield the spans around the current code, innermost first."""
    at = _innermost_span.get()
    while at is not None:
        yield at
        at = at.outer


def _restore_context() -> None:
    """Restore the context from before the spans that have ended.

    Context variables can only be reset in reverse order. A span that ends while a later span of the same task is open
    is left when that one ends.
    """
    while (
        (at := _innermost_span.get()) is not None
        and at.has_ended
        and at.innermost_token is not None
        and at.context_token is not None
    ):
        try:
            _innermost_span.reset(at.innermost_token)
        except (ValueError, RuntimeError):  # this task has a copy of the context, and outlives the call
            return
        contexts.detach(at.context_token)


class SpanRecorder:
    """Turns the events of a runtime into spans."""

    def __init__(self, runtime: Scope, tracer: Tracer, max_content: int) -> None:
        self._runtime = runtime
        self._tracer = tracer
        self._max_content = max_content
        self._redact = runtime.redact
        # Without `auto_complete` a call ends when its caller calls `complete`. Other calls of the same task may start
        # before that and are not part of it, so its span must not stay current.
        self._makes_current = runtime.auto_complete
        self._open_spans: dict[str, list[CallSpan]] = {}
        self._waiting_contexts: dict[str, tuple[SpanContext, SpanContext]] = {}
        """The first and the latest span of each pending call."""
        self._unsubscribe: Callable[[], None] | None = None
        self._is_stopping = False
        self._handlers: dict[type, Callable[[Any], None]] = {
            CallStarted: self._on_started,
            CallResumed: self._on_resumed,
            CallQueued: self._on_queued,
            CallProgress: self._on_progress,
            CallPending: self._on_pending,
            CallEnded: self._on_ended,
        }

    def listen(self) -> Callable[[], None]:
        """Start recording; the returned function stops it."""
        self._unsubscribe = self._runtime.listen(self._on_event)
        return self._stop

    def _stop(self) -> None:
        """Start no more spans. Open spans end with their calls: only their tasks can restore the context."""
        self._is_stopping = True
        self._unsubscribe_when_idle()

    def _unsubscribe_when_idle(self) -> None:
        if self._is_stopping and not self._open_spans and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _on_event(self, event: Event) -> None:
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    # Start

    def _on_started(self, event: CallStarted) -> None:
        self._start_span(event.call_id, event.tool, self._parent_context(event.parent), event.arguments)

    def _on_resumed(self, event: CallResumed) -> None:
        first, latest = self._waiting_contexts.get(event.call_id, (None, None))
        contexts_to_link = [first] if latest is first else [first, latest]
        links = [Link(context) for context in contexts_to_link if context is not None]
        self._start_span(event.call_id, event.tool, None, None, links=links, is_resumed=True)

    def _parent_context(self, call_id: str | None) -> Context | None:
        """Return the context of the parent; None (the current one) outside of calls and in the parent's handler."""
        if call_id is None or any(span.call_id == call_id for span in _enclosing_spans()):
            return None
        open_spans = self._open_spans.get(call_id)
        return trace.set_span_in_context(open_spans[0].span) if open_spans else None

    def _start_span(
        self,
        call_id: str,
        tool: str,
        parent: Context | None,
        arguments: Any,
        *,
        links: list[Link] | None = None,
        is_resumed: bool = False,
    ) -> None:
        if self._is_stopping:
            return
        listing = self._runtime.catalogue.find(tool)
        attributes: dict[str, str] = {
            OPERATION_NAME_ATTRIBUTE: "execute_tool",
            TOOL_NAME_ATTRIBUTE: tool[:200],
            CALL_ID_ATTRIBUTE: call_id,
        }
        if listing is not None:
            attributes[TOOL_TYPE_ATTRIBUTE] = "extension" if listing.kind in _EXTENSION_KINDS else "function"
            attributes[TOOL_DESCRIPTION_ATTRIBUTE] = listing.tool.description[:_MAX_DESCRIPTION_LENGTH]
            attributes |= {"surehand.kind": listing.kind, "surehand.namespace": listing.namespace}
        if self._max_content and not is_resumed:
            attributes[CALL_ARGUMENTS_ATTRIBUTE] = self._render_content(arguments)
        name = f"execute_tool {tool if listing else UNKNOWN_TOOL_NAME}"
        span = self._tracer.start_span(name, parent, SpanKind.INTERNAL, attributes, links)
        call_span = CallSpan(self, call_id, span, is_resumed, _innermost_span.get() if self._makes_current else None)
        self._open_spans.setdefault(call_id, []).append(call_span)
        if self._makes_current:
            call_span.make_current()
        if len(self._open_spans) > _MAX_OPEN_CALLS:  # a call without an end event must not be kept for ever
            self._end_span(self._open_spans[next(iter(self._open_spans))][0])

    # Events during a call

    def _on_queued(self, event: CallQueued) -> None:
        self._add_span_event(
            event.call_id, "queued", {"surehand.queue": event.queue, "surehand.position": event.position}
        )

    def _on_progress(self, event: CallProgress) -> None:
        """Record the fraction. Messages are content, because a generator may yield its result as progress."""
        attributes: dict[str, Any] = {} if event.fraction is None else {"surehand.fraction": float(event.fraction)}
        if self._max_content:
            content = {"message": event.message, "title": event.title, "data": dict(event.data) or None}
            attributes |= {
                f"surehand.{name}": self._render_content(value) for name, value in content.items() if value is not None
            }
        self._add_span_event(event.call_id, "progress", attributes)

    def _on_pending(self, event: CallPending) -> None:
        self._add_span_event(event.call_id, "pending", {"surehand.waiting_for": event.waiting_for})

    def _add_span_event(self, call_id: str, name: str, attributes: Mapping[str, Any]) -> None:
        if open_spans := self._open_spans.get(call_id):
            open_spans[0].span.add_event(name, attributes)

    # End

    def _on_ended(self, event: CallEnded) -> None:
        ending = self._find_ending_span(event.call_id)
        if ending is None:
            _restore_context()
            return
        try:
            if ending.span.is_recording():
                self._set_end_attributes(ending.span, event)
            self._remember_waiting(ending, event.outcome)
        finally:
            self._end_span(ending)

    def _find_ending_span(self, call_id: str) -> CallSpan | None:
        """Find the span that ends: of this task if possible, because a repeated id may have a span in another task."""
        open_spans = self._open_spans.get(call_id, ())
        own_spans = (
            span
            for span in _enclosing_spans()
            if span.recorder is self and span.call_id == call_id and not span.has_ended
        )
        return next(own_spans, open_spans[-1] if open_spans else None)

    def _set_end_attributes(self, span: Span, event: CallEnded) -> None:
        meta = call_meta(event)
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
                span.set_attributes({ERROR_TYPE_ATTRIBUTE: code, "surehand.code": code})
                span.set_status(Status(StatusCode.ERROR, self._render_content(message) if self._max_content else code))
            case Done() as done if self._max_content:
                span.set_attribute(CALL_RESULT_ATTRIBUTE, self._render_content(done.text))

    def _remember_waiting(self, ending: CallSpan, outcome: Outcome) -> None:
        if isinstance(outcome, Pending):
            latest = ending.span.get_span_context()
            first, _ = self._waiting_contexts.pop(ending.call_id, (latest, latest))
            self._waiting_contexts[ending.call_id] = first, latest
            while len(self._waiting_contexts) > _MAX_WAITING_CALLS:
                del self._waiting_contexts[next(iter(self._waiting_contexts))]
        elif ending.is_resumed:
            self._waiting_contexts.pop(ending.call_id, None)

    def _end_span(self, ending: CallSpan) -> None:
        open_spans = self._open_spans[ending.call_id]
        open_spans.remove(ending)
        if not open_spans:
            del self._open_spans[ending.call_id]
        ending.span.end()
        ending.has_ended = True
        _restore_context()
        self._unsubscribe_when_idle()

    def _render_content(self, value: Any) -> str:
        """Render a value as text, redacted before it is cut: half a secret would not be recognised."""
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        try:
            text = value if isinstance(value, str) else to_text(value)
        except Exception:  # noqa: BLE001 - serialising foreign objects may raise anything
            text = f"({type(value).__name__})"
        return self._redact(text)[: self._max_content]
