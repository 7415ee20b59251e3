"""Hostile servers: whatever they send or fail to send affects only their own calls and tools."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp_types import HEADER_MISMATCH
from opentelemetry import trace

from surehand import Done, Failed, Pending, Unavailable, mcp
from surehand.core.events import CallProgress
from surehand.providers.mcp.connection import health
from surehand.providers.mcp.connection import session as life
from surehand.providers.mcp.connection import tools_list as listing
from surehand.providers.mcp.connection.inbound_filter import MAX_NOTIFICATIONS_PER_SECOND, MAX_SERVER_REQUESTS
from tests.providers.mcp.hostile_runtime import HostileRuntime, run_beside_hostile
from tests.providers.mcp.peers.raw_http_server import RawRequest, serve_raw_http
from tests.providers.mcp.steady_server import wait_until


def message(**fields: Any) -> str:
    """A line of the protocol; `$ID` and `$TOKEN` are the request's own."""
    text = json.dumps({"jsonrpc": "2.0", **fields})
    return text.replace('"$ID"', "$ID").replace('"$TOKEN"', "$TOKEN").replace('"$OTHER"', "$OTHER") + "\n"


def answer(result: Any) -> str:
    return message(id="$ID", result=result)


def said(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def raw(result: str) -> str:
    return '{"jsonrpc":"2.0","id":$ID,"result":' + result + "}\n"


def notice(method: str, **params: Any) -> str:
    return message(method=f"notifications/{method}", params=params)


def times(text: str, count: int) -> dict[str, Any]:
    return {"say": text, "times": count}


def do(what: str) -> dict[str, Any]:
    return {"do": what}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "Do it.", "inputSchema": {"type": "object"}, **more}


OK = answer(said("ok"))
FORM = {"type": "object", "properties": {"a": {"type": "string"}}}


# Answers

WRONG = {
    "a number": answer(5),
    "nothing": answer(None),
    "a list": answer([]),
    "a text": answer("x"),
    "an empty object": answer({}),
    "content that is a text": answer({"content": "x"}),
    "content of numbers": answer({"content": [1, None, {"type": "text"}, {"type": "what"}]}),
    "an error flag of 7": answer({"content": [], "isError": 7}),
    "a task": answer({"task": {"taskId": "x"}}),
    "half a surrogate": raw('{"content":[{"type":"text","text":"\\ud800"}]}'),
    "no version": '{"id":$ID,"result":{"content":[]}}\n',
    "one as deep as a well": raw("[" * 100_000 + "]" * 100_000),
    "an error that is a text": message(id="$ID", error="x"),
    "an error without a number": message(id="$ID", error={"code": "x", "message": 5}),
}
"""What is no result: whether the work was done is not known."""
ODD = {
    "twice": OK + OK,
    "with words of no protocol before it": "{bad\n\xff\xfe\n\0\0\n[]\n5\nnull\n\n" + OK,
    "after answers to nobody": "".join(message(id=each, result={}) for each in ("zz", 10**9, -1, "", 1.5)) + OK,
    "after answers with ids of no kind": "".join(message(id=each, result={}) for each in (None, [], {}, True)) + OK,
    "after progress of no size": notice("progress", progressToken="$TOKEN", progress=float("nan"), message=7) + OK,
    "after notices of no kind": notice("no/such/thing", x=1) + message(method="", params={}) + OK,
    "after being cancelled itself": notice("cancelled", requestId="$ID") + OK,
    "after changes of nobody's task": notice("tasks/status", taskId="x", status="done") + OK,
}


async def test_a_malformed_response_fails_only_its_call(tmp_path: Path) -> None:
    async with run_beside_hostile(tmp_path) as hostile_runtime:
        waiting = asyncio.create_task(hostile_runtime.misbehave())  # never answered, on the same connection
        for what, said_so in WRONG.items():
            outcome = await hostile_runtime.misbehave(said_so)
            assert isinstance(outcome, Failed), what
            assert (outcome.code, outcome.executed) == ("unknown_effect", True), what
            assert "gave no answer to this" in outcome.message
        assert await hostile_runtime.answers_correctly()
        assert not waiting.done()
        waiting.cancel()
        assert hostile_runtime.starts == 1


async def test_a_response_is_found_among_other_output(tmp_path: Path) -> None:
    async with run_beside_hostile(tmp_path) as hostile_runtime:
        for what, said_so in ODD.items():
            assert await hostile_runtime.misbehave(said_so) == Done("ok"), what
        assert hostile_runtime.starts == 1


async def test_numbers_of_any_size_are_delivered_or_fail_their_call(tmp_path: Path) -> None:
    async with run_beside_hostile(tmp_path) as hostile_runtime:
        huge = await hostile_runtime.misbehave(raw('{"content":[],"structuredContent":{"n":1' + "0" * 400 + "}}"))
        larger = await hostile_runtime.misbehave(raw('{"content":[],"structuredContent":{"n":1' + "0" * 9_000 + "}}"))
        strange = await hostile_runtime.misbehave(raw('{"content":[],"structuredContent":{"n":NaN,"m":Infinity}}'))
        progress = await hostile_runtime.misbehave(notice("progress", progressToken="$TOKEN", progress=10**400), OK)

        assert huge.data == {"n": 10**400}
        assert larger.code == "unknown_effect"
        assert strange.ok
        assert strange.data == {"n": None, "m": None}
        assert progress == Done("ok")  # the MCP SDK would end the connection if it received that
        assert await hostile_runtime.answers_correctly()


async def test_a_response_with_the_id_of_another_call_belongs_to_that_call(tmp_path: Path) -> None:
    async with run_beside_hostile(tmp_path) as hostile_runtime:
        first = asyncio.create_task(hostile_runtime.misbehave(do("note")))
        await wait_until(lambda: hostile_runtime.effects == ["noted"])
        second = await hostile_runtime.misbehave(message(id="$OTHER", result=said("not yours")), OK)
        assert ((await first).data, second.data) == ("not yours", "ok")
        assert await hostile_runtime.answers_correctly()


async def test_a_result_with_thousands_of_blocks_does_not_block_the_event_loop(tmp_path: Path) -> None:
    async with run_beside_hostile(tmp_path) as hostile_runtime:
        outcome = await hostile_runtime.misbehave(answer({"content": [{"type": "text", "text": "a"}] * 9_000}))
        assert outcome.ok


# Floods

FLOODS = {
    "progress of nobody": times(notice("progress", progressToken="zz", progress=1), 20_000),
    "progress": times(notice("progress", progressToken="$TOKEN", progress=1, message="on"), 8_000),
    "changes": times(notice("tools/list_changed"), 20_000),
    "log messages": times(notice("message", level="error", data="x" * 200), 8_000),
    "notices of no kind": times(notice("progress", progressToken="zz", progress="x"), 8_000),
    "questions": times(
        message(id="q", method="sampling/createMessage", params={"messages": [], "maxTokens": 1}), 10_000
    ),
    "pings": times(message(id="q", method="ping"), 8_000),
    "lines": times("x" * 99 + "\n", 20_000),
    "large messages": times(notice("message", level="info", data="x" * 4_000_000), 5),
}


async def test_a_flood_of_messages_is_dropped_and_the_response_after_it_delivered(tmp_path: Path) -> None:
    async with run_beside_hostile(tmp_path) as hostile_runtime:
        for what, flood in FLOODS.items():
            assert await hostile_runtime.misbehave(flood, OK) == Done("ok"), what
        assert hostile_runtime.starts == 1


@pytest.mark.parametrize("traced", [False, True])
async def test_a_flood_of_progress_for_one_call_does_not_drop_that_of_another(
    tmp_path: Path, monkeypatch, traced: bool
) -> None:
    if traced:  # then calls go through the MCP SDK
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", trace.NoOpTracerProvider())
    signs = Counter[str | None]()
    flood = times(notice("progress", progressToken="$OTHER", progress=1, message="theirs"), 5_000)
    async with run_beside_hostile(tmp_path) as hostile_runtime:
        hostile_runtime.runtime.listen(
            lambda event: signs.update([event.message]) if isinstance(event, CallProgress) else None
        )
        first = asyncio.create_task(hostile_runtime.misbehave(do("note")))
        await wait_until(lambda: hostile_runtime.effects == ["noted"])

        mine = notice("progress", progressToken="$TOKEN", progress=1, message="mine")
        assert await hostile_runtime.misbehave(flood, mine, OK) == Done("ok")

        first.cancel()
        assert signs["mine"] == 1
        assert signs["theirs"] < 2_500


async def test_a_flood_on_stderr_slows_down_only_its_server(tmp_path: Path) -> None:
    async with run_beside_hostile(tmp_path) as hostile_runtime:
        assert await hostile_runtime.misbehave(do("start_shouting"), OK) == Done("ok")
        for _ in range(20):
            assert await hostile_runtime.answers_correctly()


async def test_a_line_of_a_hundred_megabytes_ends_only_its_connection(tmp_path: Path) -> None:
    async with run_beside_hostile(tmp_path) as hostile_runtime:
        outcome = await hostile_runtime.misbehave(times("x" * 10_000, 10_000), "\n" + OK)
        assert outcome.code == "unknown_effect"
        assert "more than 4194304 bytes" in outcome.message
        assert await hostile_runtime.answers_correctly()
        assert hostile_runtime.starts == 2


# Hanging and dying


@pytest.mark.parametrize("method", ["initialize", "server/discover", "tools/list"])
async def test_a_server_that_hangs_before_it_is_up_is_left_out(tmp_path: Path, method: str) -> None:
    async with run_beside_hostile(tmp_path, said={method: []}, start_timeout=0.4) as hostile_runtime:
        assert "is not up after 0.4 s" in hostile_runtime.runtime.instructions()
        assert (await hostile_runtime.answers_correctly()) is False


async def test_a_server_that_we_stop_is_not_reported_as_ended(tmp_path: Path) -> None:
    refusal = message(id="$ID", error={"code": -32000, "message": "no list today"})
    async with run_beside_hostile(tmp_path, said={"tools/list": [{"say": refusal}]}) as hostile_runtime:
        assert "no list today" in hostile_runtime.runtime.instructions()
        assert "It ended with" not in hostile_runtime.runtime.instructions()


async def test_a_server_that_hangs_in_a_call_and_at_exit_is_killed(tmp_path: Path) -> None:
    async with run_beside_hostile(tmp_path, timeout=0.3) as hostile_runtime:
        assert (await hostile_runtime.misbehave(do("cling"), do("hang"))).code == "timed_out"


@pytest.mark.parametrize("end", ["leave_a_child", "die"])
async def test_a_call_lost_with_its_server_is_not_repeated_and_the_next_call_works(tmp_path: Path, end: str) -> None:
    async with run_beside_hostile(tmp_path) as hostile_runtime:
        outcome = await hostile_runtime.misbehave('{"jsonrpc":"2.0","id":$ID,"res', do(end))
        assert outcome.code == "unknown_effect"
        assert await hostile_runtime.answers_correctly()
        assert hostile_runtime.starts == 2


async def test_a_server_that_closes_its_output_but_keeps_running_is_detected_and_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PROBE_TIMEOUT_SECONDS", 0.2)
    async with run_beside_hostile(tmp_path, timeout=0.3) as hostile_runtime:
        assert (await hostile_runtime.misbehave(do("close_stdout"))).code in ("timed_out", "unknown_effect")
        await wait_until(lambda: hostile_runtime.starts >= 2)


# What it offers


def listed(*tools: Any, **more: Any) -> dict[str, Any]:
    return {"tools/list": [{"say": answer({"tools": list(tools), **more})}]}


def entangled(depth: int) -> dict[str, Any]:
    both = {name: {"$ref": "#/$defs/NEXT"} for name in ("a", "b")}
    levels = {
        f"d{n}": json.loads(json.dumps({"type": "object", "properties": both}).replace("NEXT", f"d{n + 1}"))
        for n in range(depth)
    }
    top = {"x": {"$ref": "#/$defs/d0"}}
    return {"type": "object", "properties": top, "$defs": {**levels, f"d{depth}": {"type": "string"}}}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


CYCLE = {"$ref": "#/$defs/n"}
SCHEMAS = {
    "cyclic": {"type": "object", "properties": {"x": CYCLE}, "$defs": {"n": {"$ref": "#/$defs/m"}, "m": CYCLE}},
    "entangled": entangled(40),
    "deep": nested(80),
    "three megabytes": {"type": "object", "properties": {f"p{n}": {"description": "x" * 1_000} for n in range(3_000)}},
    "of remote parts": {"type": "object", "properties": {"x": {"$ref": "https://example.com/schema"}}},
    "of hostile patterns": {"type": "object", "properties": {"x": {"type": "string", "pattern": "(a+)+$"}}},
}


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_a_hostile_schema_affects_at_most_its_tool(tmp_path: Path, schema: str) -> None:
    output = {} if schema == "three megabytes" else {"outputSchema": SCHEMAS[schema]}
    hostile = tool("hostile", inputSchema=SCHEMAS[schema], **output)
    async with run_beside_hostile(tmp_path, said=listed(hostile, tool("echo"))) as hostile_runtime:
        assert await hostile_runtime.answers_correctly()
        outcome = await hostile_runtime.call("hostile", x="a" * 50 + "!")
        assert isinstance(outcome, Failed)
        assert outcome.code in ("not_found", "denied", "failed", "invalid_arguments")


async def test_an_endless_list_of_tools_is_cut(tmp_path: Path) -> None:
    async with run_beside_hostile(tmp_path, said=listed(tool("echo"), nextCursor="more")) as hostile_runtime:
        assert await hostile_runtime.answers_correctly()


async def test_a_list_of_huge_pages_is_cut_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_LIST_BYTES", 4 << 20)
    async with run_beside_hostile(
        tmp_path, said=listed(tool("echo", title="x" * 1_000_000), nextCursor="more$COUNT")
    ) as hostile_runtime:
        assert "bad__echo" in hostile_runtime.runtime.catalogue


async def test_thousands_of_tools_do_not_block_the_event_loop(tmp_path: Path) -> None:
    async with run_beside_hostile(
        tmp_path, said=listed(*(tool(f"t{n}") for n in range(1_000))), max_iteration_seconds=0.5
    ) as hostile_runtime:
        assert "bad__t999" in hostile_runtime.runtime.catalogue


async def test_a_malformed_tool_is_left_out_alone(tmp_path: Path) -> None:
    names = ["a\u202eb", "\0x", "", " ", "x" * 5_000, "p\u0430y"]
    strange = [tool(name) for name in names]
    broken = [None, 5, {}, {"name": 5}, {"name": "x"}, tool("d", description=5), tool("a", annotations="x")]
    loose = [{"name": "loose", "inputSchema": {}}, {"name": "bare"}]
    said_so = listed(*strange, *broken, *loose, tool("pay"), tool("pay", description="Another."), tool("echo"))
    async with run_beside_hostile(tmp_path, said=said_so) as hostile_runtime:
        found = {listing.name for listing in hostile_runtime.runtime.catalogue if listing.name.startswith("bad__")}
        assert {"bad__pay", "bad__echo", "bad__loose", "bad__bare"} <= found
        assert len(found) == 6  # and `pay` with a letter that only looks like an `a`, under a name of its own; `x`
        assert all(name.isascii() and name.isprintable() for name in found)
        assert await hostile_runtime.answers_correctly()


async def test_a_tool_whose_definition_changes_with_each_list_is_held_back(tmp_path: Path) -> None:
    async with run_beside_hostile(
        tmp_path, said=listed(tool("t", description="Number $COUNT."), tool("echo"))
    ) as hostile_runtime:
        await hostile_runtime.runtime.refresh("bad")
        assert (await hostile_runtime.call("t")).code == "denied"
        assert await hostile_runtime.answers_correctly()


@pytest.mark.parametrize("tools", ["many", None, {"a": 1}])
async def test_a_malformed_list_is_reported(tmp_path: Path, tools: Any) -> None:
    async with run_beside_hostile(
        tmp_path, said={"tools/list": [{"say": answer({"tools": tools})}]}
    ) as hostile_runtime:
        assert "## bad\nIts tools are not available now" in hostile_runtime.runtime.instructions()


# Questions


def question(number: object = "q", **params: Any) -> str:
    return message(id=number, method="elicitation/create", params={"message": "Well?", **params})


async def test_a_thousand_questions_without_a_call_are_not_shown(tmp_path: Path) -> None:
    async with run_beside_hostile(tmp_path) as hostile_runtime:
        asked = "".join(question(n, requestedSchema=FORM) for n in range(1_000))
        assert await hostile_runtime.misbehave(OK, asked) == Done("ok")
        await hostile_runtime.runtime.refresh("bad")  # what it says to that comes after all its questions
        await wait_until(lambda: len(hostile_runtime.received_answers) >= MAX_NOTIFICATIONS_PER_SECOND)
        assert await hostile_runtime.answers_correctly()
        assert all("error" in each for each in hostile_runtime.received_answers)
        assert (
            len(hostile_runtime.received_answers) < 1_000
        )  # so many within a second, and a slow machine may take several


@pytest.mark.parametrize("traced", [False, True])
async def test_an_error_with_the_code_of_a_lost_connection_keeps_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, traced: bool
) -> None:
    if traced:
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", trace.NoOpTracerProvider())
    async with run_beside_hostile(tmp_path) as hostile_runtime:
        outcome = await hostile_runtime.misbehave(
            message(id="$ID", error={"code": -32000, "message": "Quota exceeded"})
        )
        assert (outcome.code, outcome.message) == ("failed", "bad says: Quota exceeded")
        assert await hostile_runtime.answers_correctly()
        assert hostile_runtime.starts == 1


async def test_cancelled_requests_of_a_server_free_their_slots(tmp_path: Path) -> None:
    taken_back = "".join(
        message(id=n, method="ping") + notice("cancelled", requestId=n) for n in range(MAX_SERVER_REQUESTS)
    )
    async with run_beside_hostile(
        tmp_path, said={"answer": [{"say": message(id="$OTHER", result=said("heard"))}]}
    ) as hostile_runtime:
        assert await hostile_runtime.misbehave(taken_back + message(id="last", method="ping")) == Done("heard")


async def test_a_server_that_repeats_an_impossible_question_fails_the_call(tmp_path: Path) -> None:
    address = {"mode": "url", "url": "javascript:alert(1)", "elicitationId": "1"}
    async with run_beside_hostile(
        tmp_path, said={"answer": [{"say": question("again-$COUNT", **address)}]}
    ) as hostile_runtime:
        outcome = await hostile_runtime.misbehave(question("first", **address))
        assert outcome.code == "failed"
        assert "asked 32 times for input that this client cannot give" in outcome.message
        assert hostile_runtime.received_answers[0]["result"] == {"action": "decline"}


async def test_a_header_mismatch_over_stdio_is_an_ordinary_error_and_a_failed_relist_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "RELIST_TIMEOUT_SECONDS", 0.3)
    async with run_beside_hostile(tmp_path) as hostile_runtime:
        hostile_runtime.script({"tools/list": []})
        outcome = await hostile_runtime.misbehave(
            message(id="$ID", error={"code": HEADER_MISMATCH, "message": "look again"})
        )
        assert (outcome.code, outcome.executed) == ("failed", True)  # only HTTP has headers that could mismatch
        assert "look again" in outcome.message
        with pytest.raises(Unavailable, match="does not say what it offers"):
            await hostile_runtime.runtime.refresh("bad")
        hostile_runtime.script({"tools/list": [do("die")]})
        with pytest.raises(Unavailable, match="does not say what it offers"):
            await hostile_runtime.runtime.refresh("bad")


FORMS = {
    "entangled": entangled(40),
    "deep": {"type": "object", "properties": {"a": nested(60)}},
    "no object": {"type": "array"},
}


@pytest.mark.parametrize("form", FORMS)
async def test_a_malformed_form_does_not_make_the_call_wait(tmp_path: Path, form: str) -> None:
    said_then = {"answer": [{"say": message(id="$OTHER", error={"code": 1, "message": "no form"})}]}
    async with run_beside_hostile(tmp_path, said=said_then) as hostile_runtime:
        outcome = await hostile_runtime.misbehave(question(requestedSchema=FORMS[form]))
        if isinstance(outcome, Pending):
            answered = await hostile_runtime.runtime.settle(
                outcome.call_id, {"action": "accept", "content": {"x": {"a": {}}}}
            )
            assert not isinstance(answered, Done)
        assert await hostile_runtime.answers_correctly()


async def test_requests_for_unsupported_features_are_refused(tmp_path: Path) -> None:
    wanted = message(id="s", method="sampling/createMessage", params={"messages": [], "maxTokens": 5})
    async with run_beside_hostile(tmp_path) as hostile_runtime:
        assert await hostile_runtime.misbehave(
            wanted, message(id="r", method="roots/list"), message(id="x", method="no/such"), OK
        ) == Done("ok")


# The modern protocol


def required(state: str, **requests: Any) -> str:
    return answer(
        {"resultType": "input_required", "requestState": state, **({"inputRequests": requests} if requests else {})}
    )


async def test_a_server_that_only_asks_for_time_is_bounded_by_the_deadline(tmp_path: Path) -> None:
    said = {"tools/call": [{"say": required("more")}]}
    async with run_beside_hostile(tmp_path, era="modern", said=said, total=0.6) as hostile_runtime:
        outcome = await hostile_runtime.call("echo")
        assert outcome.code == "timed_out"


async def test_the_stored_state_of_a_question_is_bounded(tmp_path: Path) -> None:
    async with run_beside_hostile(tmp_path, era="modern") as hostile_runtime:
        form = {"method": "elicitation/create", "params": {"mode": "form", "message": "?", "requestedSchema": FORM}}
        small = await hostile_runtime.misbehave(required("x" * 100_000, q=form))
        large = await hostile_runtime.misbehave(required("x" * 1_000_000, q=form))
        larger = await hostile_runtime.misbehave(required("x" * 5_000_000, q=form))
        assert isinstance(small, Pending)
        assert large.code == "too_large"
        assert larger.code == "unknown_effect"
        assert await hostile_runtime.answers_correctly()


@pytest.mark.parametrize(
    "found", [{}, [], "x", {"supportedVersions": "all"}, {"supportedVersions": []}, {"supportedVersions": ["3000"]}]
)
async def test_a_malformed_discover_result_does_not_bring_a_server_up(tmp_path: Path, found: Any) -> None:
    async with run_beside_hostile(
        tmp_path, era="modern", said={"server/discover": [{"say": answer(found)}], "initialize": []}, start_timeout=0.5
    ) as hostile_runtime:
        assert "## bad\nIts tools are not available now" in hostile_runtime.runtime.instructions()


async def test_a_call_whose_response_was_cut_off_is_not_repeated(tmp_path: Path) -> None:
    async with run_beside_hostile(tmp_path) as hostile_runtime:
        for n in range(5):
            await hostile_runtime.call("effect", text=str(n))
            await hostile_runtime.misbehave(do("die")) if n < 2 else None
        assert hostile_runtime.effects == [str(n) for n in range(5)]


# Over HTTP


VERSION = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "web", "version": "1"},
}


@dataclass
class Web:
    """A scripted server of the handshake protocol; functions in `worst`, by method or `GET`, replace its answers."""

    worst: dict[str, Any] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    session: str = "one"
    open: list[RawRequest] = field(default_factory=list)

    def restart(self) -> None:
        """Forget all sessions and close all connections."""
        self.session = "another"
        for asked in self.open:
            asked.hang_up()

    async def __call__(self, asked: RawRequest) -> None:
        self.open.append(asked)
        method = asked.message["method"] if asked.method == "POST" else asked.method
        if method == "tools/call":
            self.calls.append(asked.message["params"]["arguments"]["text"])
        if method in self.worst:
            return await self.worst[method](asked)
        if asked.method != "POST":
            return await asked.answer(405)
        if method != "initialize" and asked.headers.get("mcp-session-id") != self.session:
            return await asked.answer(404)
        if method == "initialize":
            return await asked.result(VERSION, mcp_session_id=self.session)
        if method == "tools/list":
            return await asked.result({"tools": [tool("echo")]})
        if method == "tools/call":
            return await asked.result(said(self.calls[-1]))
        return await asked.answer(202)


@asynccontextmanager
async def on_the_web(
    tmp_path: Path, worst: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[HostileRuntime, Web]]:
    web = Web(worst or {})
    async with serve_raw_http(web) as url:
        given = {"namespace": "bad", "manifest": False, "timeout": 60, "protocol": "legacy", **options}
        async with run_beside_hostile(tmp_path, mcp.http(f"{url}/mcp", **given)) as hostile_runtime:
            yield hostile_runtime, web


async def endless_events(asked: RawRequest) -> None:
    await asked.events()
    while True:
        await asyncio.sleep(0)  # it shares our loop
        await asked.event("data: " + notice("message", level="info", data="x").strip())


async def endless_event(asked: RawRequest) -> None:
    await asked.events()
    while True:
        await asyncio.sleep(0)
        asked.writer.write(b"data: " + b"x" * 65_536 + b"\n")
        await asked.writer.drain()


async def large_body(asked: RawRequest) -> None:
    asked.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 104857600\r\n\r\n")
    for _ in range(1_600):
        await asyncio.sleep(0)
        asked.writer.write(b" " * 65_536)
        await asked.writer.drain()


BOMB = gzip.compress(b" " * (32 << 20), 1)


async def bomb(asked: RawRequest) -> None:
    await asked.answer(200, BOMB, content_type="application/json", content_encoding="gzip")


async def slow_headers(asked: RawRequest) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Slow: " + b"x" * 10_000:
        asked.writer.write(bytes([byte]))
        await asked.writer.drain()
        await asyncio.sleep(0.05)


async def elsewhere(asked: RawRequest) -> None:
    await asked.answer(307, b"", location="http://169.254.169.254/latest/meta-data")


async def cut_off(asked: RawRequest) -> None:
    asked.writer.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"jsonrpc"')
    await asked.writer.drain()
    asked.writer.transport.abort()


async def cut_off_events(asked: RawRequest) -> None:
    await asked.events('data: {"jsonrpc"')
    asked.writer.transport.abort()


async def hang_up(asked: RawRequest) -> None:
    asked.writer.transport.abort()


async def nonsense(asked: RawRequest) -> None:
    asked.writer.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
    await asked.writer.drain()
    asked.writer.close()


def status(code: int) -> Any:
    async def refuse(asked: RawRequest) -> None:
        await asked.answer(code, "<html>no</html>", content_type="text/html")

    return refuse


LATE = {"timed_out"}
AT_A_CALL: dict[str, tuple[Any, set[str]]] = {
    "endless events": (endless_events, LATE),
    "one endless event": (endless_event, {"unknown_effect"}),
    "a body of 100 MB": (large_body, {"unknown_effect"}),
    "a bomb": (bomb, {"unknown_effect"}),
    "headers byte by byte": (slow_headers, LATE),
    "a way to another host": (elsewhere, {"unknown_effect", "unavailable", "failed"}),
    "half an answer": (cut_off, {"unknown_effect"}),
    "half an event": (cut_off_events, {"unknown_effect"}),
    "a page": (status(200), {"unknown_effect"}),
    "a reset": (hang_up, {"unknown_effect"}),
    "no HTTP": (nonsense, {"unknown_effect"}),
    "401": (status(401), {"unavailable"}),
    "403": (status(403), {"unavailable"}),
    "500": (status(500), {"unknown_effect"}),
    "503": (status(503), {"unknown_effect"}),
}


@pytest.mark.long
@pytest.mark.parametrize("timeout", [1, 60])
async def test_any_malformed_http_response_fails_only_its_call_which_is_not_repeated(
    tmp_path: Path, timeout: int
) -> None:
    chosen = {what: (worst, codes) for what, (worst, codes) in AT_A_CALL.items() if (timeout == 1) == (codes == LATE)}
    async with on_the_web(tmp_path, timeout=timeout) as (hostile_runtime, web):
        for what, (worst, codes) in chosen.items():
            web.worst["tools/call"] = worst
            outcome = await hostile_runtime.call("echo", text=what)
            assert outcome.code in codes, (what, outcome)
            if outcome.code != "unavailable":  # those that were turned away did nothing, and may go twice
                assert web.calls.count(what) == 1
            web.worst.clear()
            assert await hostile_runtime.call("echo", text="again") == Done("again"), what


@pytest.mark.parametrize("method", ["initialize", "tools/list"])
@pytest.mark.parametrize("worst", [status(401), status(404), status(500), hang_up, nonsense, large_body, endless_event])
async def test_a_server_that_does_not_come_up_over_http_is_left_out(tmp_path: Path, method: str, worst: Any) -> None:
    async with on_the_web(tmp_path, {method: worst}, start_timeout=1) as (hostile_runtime, _):
        assert "## bad\nIts tools are not available now" in hostile_runtime.runtime.instructions()


async def test_a_session_lost_between_calls_is_reopened_and_the_call_sent_again(tmp_path: Path) -> None:
    async with on_the_web(tmp_path) as (hostile_runtime, web):
        assert await hostile_runtime.call("echo", text="a") == Done("a")
        web.session = "two"
        assert await hostile_runtime.call("echo", text="b") == Done("b")


async def test_a_server_restarted_between_calls_is_reconnected(tmp_path: Path) -> None:
    async with on_the_web(tmp_path) as (hostile_runtime, web):
        assert await hostile_runtime.call("echo", text="a") == Done("a")
        web.restart()
        assert await hostile_runtime.call("echo", text="b") == Done("b")
