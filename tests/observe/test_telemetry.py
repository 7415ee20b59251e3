"""OpenTelemetry spans of calls, read from a real exporter."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.semconv.attributes import error_attributes
from opentelemetry.trace import SpanKind, StatusCode

from surehand import Call, Context, Pending, Provider, Queue, Runtime, ToolError, tool
from surehand.observe import telemetry
from surehand.testing import ManualClock, settle


class Exported:
    """A provider whose spans can be looked at."""

    def __init__(self, **options: Any) -> None:
        self._spans = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self.provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.tracer = self.provider.get_tracer("test")

    @property
    def spans(self) -> list[ReadableSpan]:
        """In the order they began."""
        return sorted(self._spans.get_finished_spans(), key=lambda span: span.start_time)

    @property
    def tree(self) -> dict[str, str | None]:
        """Each span's name, and that of its parent."""
        names = {span.context.span_id: span.name for span in self.spans}
        return {span.name: names.get(span.parent.span_id) if span.parent else None for span in self.spans}

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == f"execute_tool {name}"]


@contextmanager
def spans_of(runtime: Runtime, **options: Any) -> Iterator[Exported]:
    exported = Exported()
    end = telemetry(runtime, exported.provider, **options)
    try:
        yield exported
    finally:
        end()
    assert runtime._parts.listeners.callbacks == ()
    assert trace.get_current_span() is trace.INVALID_SPAN


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(confirm=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class Remote(Provider):
    """A provider of remote tools."""

    kind = "mcp"
    namespace = "git"

    async def tools(self) -> list[Any]:
        return [tool(name="log", description="Show the log.", parameters={"type": "object"})(lambda arguments: "log")]


async def test_a_call_is_a_span_with_the_names_of_the_genai_conventions() -> None:
    async with Runtime(add) as runtime:
        with spans_of(runtime) as exported:
            outcome = await runtime.call("add", {"a": 1, "b": 2})

    (span,) = exported.spans
    assert (span.name, span.kind, span.status.status_code) == ("execute_tool add", SpanKind.INTERNAL, StatusCode.UNSET)
    assert span.parent is None
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "surehand"
    assert dict(span.attributes or {}) == {
        gen_ai.GEN_AI_OPERATION_NAME: "execute_tool",
        gen_ai.GEN_AI_TOOL_NAME: "add",
        gen_ai.GEN_AI_TOOL_CALL_ID: outcome.meta.call_id,
        gen_ai.GEN_AI_TOOL_TYPE: "function",
        gen_ai.GEN_AI_TOOL_DESCRIPTION: "Add two numbers.",
        "surehand.kind": "function",
        "surehand.namespace": "",
        "surehand.attempts": 1,
        "surehand.cached": False,
        "surehand.queued_ms": 0.0,
        "surehand.characters_in": 13,
        "surehand.characters_out": 1,
        "surehand.tokens": 1,
    }


async def test_a_tool_of_another_system_is_an_extension() -> None:
    async with Runtime(Remote()) as runtime:
        with spans_of(runtime) as exported:
            await runtime.call("git__log")

    (span,) = exported.spans
    attributes = span.attributes or {}
    assert span.name == "execute_tool git__log"
    assert attributes[gen_ai.GEN_AI_TOOL_TYPE] == "extension"
    assert (attributes["surehand.kind"], attributes["surehand.namespace"]) == ("mcp", "git")


async def test_a_failure_is_an_error_of_its_code_that_reveals_nothing() -> None:
    @tool
    async def read(path: str) -> str:
        """Read a file."""
        raise ToolError(f"No file {path!r}.", code="not_found")

    async with Runtime(read) as runtime:
        with spans_of(runtime) as exported:
            await runtime.call("read", {"path": "/secret"})

    (span,) = exported.spans
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "not_found")
    assert (span.attributes or {})[error_attributes.ERROR_TYPE] == "not_found"
    assert (span.attributes or {})["surehand.code"] == "not_found"
    assert "secret" not in span.to_json()


async def test_unknown_tools_share_one_span_name() -> None:
    async with Runtime(add) as runtime:
        with spans_of(runtime) as exported:
            await runtime.call("nope")
            await runtime.call("x" * 5_000)

    assert [span.name for span in exported.spans] == ["execute_tool (unknown)"] * 2
    assert [(span.attributes or {})[gen_ai.GEN_AI_TOOL_NAME] for span in exported.spans] == ["nope", "x" * 200]
    assert all((span.attributes or {})["error.type"] == "not_found" for span in exported.spans)


async def test_arguments_that_cannot_be_serialised_still_end_their_span() -> None:
    async with Runtime(add) as runtime:
        with spans_of(runtime, content=True) as exported:
            await runtime.call("add", {"a": object(), "b": 1})

    (span,) = exported.spans
    assert (span.attributes or {})["error.type"] == "invalid_arguments"
    assert (span.attributes or {})[gen_ai.GEN_AI_TOOL_CALL_ARGUMENTS] == "(dict)"


async def test_arguments_results_messages_and_progress_are_recorded_only_when_asked_for() -> None:
    @tool
    async def echo(text: str, ctx: Context) -> str:
        """Say it again."""
        ctx.report(0.5, f"half of {text}")
        ctx.report(title=text, said=text)
        if text == "bad-secret":
            raise ToolError(f"not {text}")
        return text

    async with Runtime(echo) as runtime:
        for content in (False, True):
            with spans_of(runtime, content=content) as exported:
                await runtime.call("echo", {"text": "my-secret"})
                await runtime.call("echo", {"text": "bad-secret"})

            good, bad = exported.spans
            assert [event.name for event in good.events] == ["progress", "progress"]
            assert dict(good.events[0].attributes or {})["surehand.fraction"] == 0.5
            assert ("secret" in good.to_json(), "secret" in bad.to_json()) == (content, content)

    assert (good.attributes or {})[gen_ai.GEN_AI_TOOL_CALL_ARGUMENTS] == '{"text":"my-secret"}'
    assert (good.attributes or {})[gen_ai.GEN_AI_TOOL_CALL_RESULT] == "my-secret"
    assert (good.events[0].attributes or {})["surehand.message"] == "half of my-secret"
    assert dict(good.events[1].attributes or {}) == {
        "surehand.title": "my-secret",
        "surehand.data": '{"said":"my-secret"}',
    }
    assert bad.status.description == "not bad-secret"


async def test_recorded_content_is_cut_and_known_secrets_are_masked_before() -> None:
    @tool
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    async with Runtime(echo, secrets=["hunter2!"]) as runtime:
        with spans_of(runtime, content=True, max_content=20) as exported:
            await runtime.call("echo", '{"text": "12hunter2!' + "x" * 100 + '"}')

    (span,) = exported.spans
    attributes = dict(span.attributes or {})
    assert attributes[gen_ai.GEN_AI_TOOL_CALL_ARGUMENTS] == '{"text": "12[redacte'
    assert attributes[gen_ai.GEN_AI_TOOL_CALL_RESULT] == "12[redacted]xxxxxxxx"


async def test_queue_time_and_attempts_are_on_the_span() -> None:
    gate = asyncio.Event()

    @tool(queue="narrow")
    async def slow() -> None:
        """Take a while."""
        await gate.wait()

    async with Runtime(slow, queues={"narrow": Queue(concurrent=1)}) as runtime:
        with spans_of(runtime) as exported:
            both = asyncio.gather(runtime.call("slow"), runtime.call("slow"))
            await settle()
            gate.set()
            await both

    _, second = exported.spans
    assert (second.attributes or {})["surehand.queued_ms"] > 0  # type: ignore[operator]
    assert [(event.name, dict(event.attributes or {})) for event in second.events] == [
        ("queued", {"surehand.queue": "narrow", "surehand.position": 1})
    ]


async def test_spans_are_nested_like_calls_with_the_handlers_own_spans_between() -> None:
    exported = Exported()

    @tool
    async def inner(name: str) -> str:
        """Work."""
        with exported.tracer.start_as_current_span(f"work {name}"):
            await asyncio.sleep(0)
        return name

    @tool
    def in_a_thread() -> int:
        """Work in a thread."""
        with exported.tracer.start_as_current_span("thread work"):
            return 1

    @tool
    async def outer(ctx: Context) -> None:
        """Call others."""
        with exported.tracer.start_as_current_span("own step"):
            await ctx.call("in_a_thread")
        await ctx.call("inner", {"name": "after"})

    async with Runtime(inner, outer, in_a_thread) as runtime:
        end = telemetry(runtime, exported.provider)
        with exported.tracer.start_as_current_span("request") as request:
            await runtime.call("outer")
            assert trace.get_current_span() is request
        end()

    assert exported.tree == {
        "request": None,
        "execute_tool outer": "request",
        "own step": "execute_tool outer",
        "execute_tool in_a_thread": "own step",
        "thread work": "execute_tool in_a_thread",
        "execute_tool inner": "execute_tool outer",
        "work after": "execute_tool inner",
    }


async def test_parallel_nested_calls_are_children_of_their_own_callers() -> None:
    @tool
    async def leaf(of: str) -> str:
        """Work."""
        await asyncio.sleep(0)
        return of

    @tool
    async def branch(name: str, ctx: Context) -> None:
        """Call twice at the same time."""
        await asyncio.gather(*(ctx.call("leaf", {"of": name}) for _ in range(2)))

    async with Runtime(leaf, branch) as runtime:
        with spans_of(runtime, content=True) as exported:
            await runtime.call_many(Call("branch", {"name": name}) for name in "abc")

    branches = {span.context.span_id: span for span in exported.named("branch")}
    assert len(branches) == 3
    assert len(exported.named("leaf")) == 6
    for span in exported.named("leaf"):
        assert span.parent is not None
        above = branches[span.parent.span_id].attributes or {}
        result = (span.attributes or {})[gen_ai.GEN_AI_TOOL_CALL_RESULT]
        assert above[gen_ai.GEN_AI_TOOL_CALL_ARGUMENTS] == f'{{"name":"{result}"}}'


async def test_a_nested_call_from_elsewhere_is_a_child_of_the_call_that_it_names() -> None:
    gate = asyncio.Event()

    @tool
    async def outer() -> None:
        """Wait."""
        await gate.wait()

    async with Runtime(outer, add) as runtime:
        with spans_of(runtime) as exported:
            task = asyncio.ensure_future(runtime.call("outer", call_id="above"))
            await settle()
            await runtime.call_many([Call("add", {"a": 1, "b": 2}, parent="above")])
            gate.set()
            await task

    assert exported.tree == {"execute_tool outer": None, "execute_tool add": "execute_tool outer"}


async def test_calls_one_after_the_other_are_siblings() -> None:
    async with Runtime(add) as runtime:
        with spans_of(runtime) as exported:
            for _ in range(3):
                await runtime.call("add", {"a": 1, "b": 2})

    assert [span.parent for span in exported.spans] == [None] * 3


async def test_calls_that_overlap_in_one_task_leave_it_as_it_was() -> None:
    ask = tool.client("ask", "Ask a person.", parameters={"type": "object"}, reply="wait")

    async with Runtime(ask) as runtime:
        with spans_of(runtime) as exported:
            before = context.get_current()
            first, second = runtime.call("ask"), runtime.call("ask")
            for call in (first, second):
                call.send(None)
            for call in (first, second):
                with pytest.raises(StopIteration, match="cancelled"):  # how a coroutine returns its outcome
                    call.throw(asyncio.CancelledError())

            assert context.get_current() is before

    assert [(span.attributes or {})["error.type"] for span in exported.spans] == ["cancelled"] * 2


async def test_a_resumed_call_has_a_second_span_that_links_to_the_first() -> None:
    async with Runtime(pay) as runtime:
        with spans_of(runtime) as exported:
            pending = await runtime.call("pay", {"amount": 5})
            with exported.tracer.start_as_current_span("approval"):
                await runtime.approve(pending.meta.call_id)

    first, second = exported.named("pay")
    assert (first.status.status_code, first.links) == (StatusCode.UNSET, ())
    assert (first.attributes or {})["surehand.pending"] is True
    assert (first.attributes or {})["surehand.waiting_for"] == "approval"
    assert [link.context for link in second.links] == [first.context]
    assert "surehand.pending" not in (second.attributes or {})
    assert exported.tree["execute_tool pay"] == "approval"
    assert (second.attributes or {})[gen_ai.GEN_AI_TOOL_CALL_ID] == pending.meta.call_id


async def test_a_call_that_waits_twice_links_to_its_first_span_and_its_latest() -> None:
    class Asking(Provider):
        async def tools(self) -> list[Any]:
            return [tool.external("ask", "Ask.").evolve(kind="mcp", handler=None)]

        async def invoke(self, call: Call, context: Context) -> Any:
            return Pending("input")

        async def resume(self, call: Call, state: Any, answer: Any, context: Any) -> Any:
            return answer if answer == "enough" else Pending("input")

    async with Runtime(Asking()) as runtime:
        with spans_of(runtime) as exported:
            await runtime.call("ask", call_id="c1")
            for answer in ("one", "two", "enough"):
                await runtime.settle("c1", answer)

    spans = exported.spans
    assert [[link.context for link in span.links] for span in spans] == [
        [],
        [spans[0].context],
        [spans[0].context, spans[1].context],
        [spans[0].context, spans[2].context],
    ]


async def test_repeating_a_pending_call_does_not_break_its_link() -> None:
    async with Runtime(pay) as runtime:
        with spans_of(runtime) as exported:
            await runtime.call("pay", {"amount": 5}, call_id="c1")
            await runtime.call("pay", {"amount": 6}, call_id="c1")
            await runtime.approve("c1")

    first, conflict, second = exported.named("pay")
    assert (conflict.attributes or {})["error.type"] == "conflict"
    assert [link.context for link in second.links] == [first.context]


async def test_the_same_id_at_the_same_time_has_two_spans_that_both_end() -> None:
    gate = asyncio.Event()

    @tool(effects={"write"})
    async def once() -> str:
        """Wait."""
        await gate.wait()
        return "done"

    async with Runtime(once) as runtime:
        with spans_of(runtime, content=True) as exported:
            first = asyncio.ensure_future(runtime.call("once", call_id="c1"))
            await settle()
            await runtime.call("once", {"x": 1}, call_id="c1")
            gate.set()
            await first

    done, refused = exported.spans
    assert (done.attributes or {})[gen_ai.GEN_AI_TOOL_CALL_RESULT] == "done"
    assert (refused.attributes or {})["error.type"] == "invalid_arguments"


async def test_cancelled_calls_leave_no_span_open_and_no_context_behind() -> None:
    asleep: list[int] = []

    @tool
    async def sleep() -> None:
        """Never end."""
        asleep.append(1)
        if len(asleep) == 2:
            limit.reschedule(0)
        await asyncio.Event().wait()

    @tool
    async def outer(ctx: Context) -> None:
        """Wait for two others."""
        await asyncio.gather(ctx.call("sleep"), ctx.call("sleep"))

    async with Runtime(sleep, outer) as runtime:
        with spans_of(runtime) as exported:
            before = context.get_current()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(None) as limit:
                    await runtime.call("outer")
            assert context.get_current() is before

    assert [(span.attributes or {})["error.type"] for span in exported.spans] == ["cancelled"] * 3
    (outer_span,) = exported.named("outer")
    assert {span.parent.span_id for span in exported.named("sleep") if span.parent} == {outer_span.context.span_id}


async def test_a_handler_that_outlives_its_deadline_does_not_confuse_the_spans() -> None:
    clock, gate = ManualClock(), asyncio.Event()

    @tool(timeout=1)
    async def stubborn(ctx: Context) -> None:
        """Do not stop."""
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        await ctx.call("add", {"a": 1, "b": 2})

    async with Runtime(stubborn, add, clock=clock) as runtime:
        with spans_of(runtime) as exported:
            task = asyncio.ensure_future(runtime.call("stubborn"))
            await settle()
            advancing = asyncio.ensure_future(clock.advance(2))
            assert (await task).meta.tool == "stubborn"
            gate.set()
            await advancing
            await settle()

    assert exported.tree == {"execute_tool stubborn": None, "execute_tool add": "execute_tool stubborn"}
    assert (exported.named("stubborn")[0].attributes or {})["error.type"] == "timed_out"


async def test_an_unsampled_span_has_no_attributes_but_passes_on_its_context() -> None:
    exported = Exported(sampler=ALWAYS_OFF)
    seen = []

    @tool
    async def look() -> None:
        """Look around."""
        seen.append(trace.get_current_span().get_span_context())

    async with Runtime(look) as runtime:
        end = telemetry(runtime, exported.provider)
        await runtime.call("look")
        end()

    assert exported.spans == []
    assert seen[0].is_valid
    assert not seen[0].trace_flags.sampled


async def test_two_providers_may_listen_at_once() -> None:
    async with Runtime(add) as runtime:
        with spans_of(runtime) as one:
            other = Exported()
            end = telemetry(runtime, other.provider)
            await runtime.call("add", {"a": 1, "b": 2})
            assert trace.get_current_span() is trace.INVALID_SPAN
            end()

    assert (len(one.spans), len(other.spans)) == (1, 1)


async def test_calls_that_run_when_telemetry_ends_still_end_their_spans() -> None:
    gate = asyncio.Event()

    @tool
    async def slow() -> None:
        """Wait."""
        await gate.wait()

    exported = Exported()
    async with Runtime(slow, add) as runtime:
        end = telemetry(runtime, exported.provider)
        task = asyncio.ensure_future(runtime.call("slow"))
        await settle()
        end()
        await runtime.call("add", {"a": 1, "b": 2})
        assert exported.spans == []
        gate.set()
        await task
        assert runtime._parts.listeners.callbacks == ()

    assert [span.name for span in exported.spans] == ["execute_tool slow"]


async def test_there_are_never_more_open_spans_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surehand.observe.spans._MAX_OPEN_CALLS", 2)
    gate = asyncio.Event()

    @tool
    async def slow() -> None:
        """Wait."""
        await gate.wait()

    async def leaving_nothing_current(runtime: Runtime) -> None:
        await runtime.call("slow")
        assert trace.get_current_span() is trace.INVALID_SPAN

    async with Runtime(slow) as runtime:
        with spans_of(runtime) as exported:
            calls = asyncio.gather(*(leaving_nothing_current(runtime) for _ in range(5)))
            await settle()
            assert len(exported.spans) == 3
            gate.set()
            await calls

    assert len(exported.spans) == 5


async def test_without_auto_complete_the_span_ends_with_complete() -> None:
    async with Runtime(add, auto_complete=False) as runtime:
        with spans_of(runtime) as exported:
            first = await runtime.call("add", {"a": 1, "b": 2})
            second = await runtime.call("add", {"a": 1, "b": 2})
            assert exported.spans == []
            runtime.complete(first)
            runtime.complete(second)

    assert [span.parent for span in exported.spans] == [None, None]


@pytest.mark.parametrize("provider", [None, trace.NoOpTracerProvider(), trace.ProxyTracerProvider()])
async def test_without_a_tracer_nothing_listens(provider: Any) -> None:
    async with Runtime(add) as runtime:
        end = telemetry(runtime, provider)

        assert runtime._parts.listeners.callbacks == ()
        end()


async def test_with_a_disabled_sdk_nothing_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")

    async with Runtime(add) as runtime:
        telemetry(runtime, TracerProvider(shutdown_on_exit=False))

        assert runtime._parts.listeners.callbacks == ()


async def test_without_the_api_nothing_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "surehand.observe.spans", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)

    async with Runtime(add) as runtime:
        telemetry(runtime)

        assert runtime._parts.listeners.callbacks == ()


async def test_a_provider_that_is_set_for_the_process_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    exported = Exported()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", exported.provider)

    async with Runtime(add) as runtime:
        end = telemetry(runtime)
        await runtime.call("add", {"a": 1, "b": 2})
        end()

    assert [span.name for span in exported.spans] == ["execute_tool add"]
