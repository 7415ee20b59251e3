"""Untrusted wire data: texts are cleaned, no call is sent twice, and large messages do not block the event loop."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from mcp_types import HEADER_MISMATCH

from surehand import Done, Failed, Runtime, mcp
from surehand.cli.stderr_log import log_on_stderr
from surehand.core.errors import ToolError
from surehand.jsonrpc.limits import SERVER_MESSAGE_LIMITS, EventStreamLimit, has_too_many_values
from surehand.providers.mcp.addresses.http import HttpAddress, SseAddress
from surehand.providers.mcp.connection_errors import (
    ConnectionFailure,
    RequestFailed,
    failure_from_error,
    failure_from_status,
)
from surehand.providers.mcp.tools.result import MAX_CONTENT_BLOCKS, done_from_result, is_heavy
from surehand.providers.mcp.tools.schema import ServerSchema, pattern_budget
from tests.providers.mcp.connection.test_hostile_servers import (
    VERSION,
    answer,
    message,
    notice,
    raw,
    said,
    times,
    tool,
)
from tests.providers.mcp.hostile_runtime import LoopTimer, hostile_provider
from tests.providers.mcp.peers.raw_http_server import RawRequest, serve_raw_http
from tests.providers.mcp.steady_server import replace_file
from tests.providers.mcp.transports.test_http import connected
from tests.providers.mcp.transports.test_websocket import listening

EVIL = "a\x1b]0;title\x07\x1b[31mred\u202eturned\u2066\U000e0041\U000e0100\u200b\u2060\u061c\xad\x9b\x08 b"
UNSEEN = set(EVIL) - set("ab]0;title[31mredturned ")


def is_clean(text: str) -> bool:
    return not UNSEEN & set(text)


@asynccontextmanager
async def speaking(tmp_path: Path, **options: Any) -> AsyncIterator[tuple[Runtime, Callable[..., Any]]]:
    """A runtime with a server that says whatever it is told to say."""
    async with Runtime(hostile_provider(tmp_path / "bad", **options)) as runtime:

        async def bad(*steps: str | dict[str, Any]) -> Any:
            said_so = [{"say": step} if isinstance(step, str) else step for step in steps]
            return await runtime.call("bad__bad", {"steps": said_so})

        yield runtime, bad


@contextmanager
def recorded(name: str = "") -> Iterator[list[logging.LogRecord]]:
    """What is logged meanwhile; faster than keeping it all as text."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    log = logging.getLogger(name)
    log.addHandler(handler)
    try:
        yield records
    finally:
        log.removeHandler(handler)


# Words


@pytest.mark.parametrize("code", [-32050, -32000, -32001, -32600])
async def test_the_text_of_an_error_is_cleaned(tmp_path: Path, code: int, caplog: pytest.LogCaptureFixture) -> None:
    async with speaking(tmp_path) as (_, bad):
        outcome = await bad(
            json.dumps({"jsonrpc": "2.0", "id": 0, "error": {"code": code, "message": EVIL}}).replace(
                '"id": 0', '"id": $ID'
            )
            + "\n"
        )
    assert isinstance(outcome, Failed)
    assert "red" in outcome.message
    assert is_clean(outcome.message)
    assert all(is_clean(record.getMessage()) for record in caplog.records)


def test_no_error_contains_uncleaned_text_of_a_server() -> None:
    for error in (MCPError(code=1, message=EVIL), MCPError(code=-32000, message=f"SSE stream {EVIL}"), OSError(EVIL)):
        assert is_clean(failure_from_error(error).message)


async def test_the_close_reason_of_a_websocket_is_cleaned(caplog: pytest.LogCaptureFixture) -> None:
    async def handle(socket: Any) -> None:
        async for text in socket:
            asked = json.loads(text)
            if asked.get("method") == "tools/call":
                await socket.close(1011, EVIL)
            elif "id" in asked:
                found = {"initialize": VERSION, "tools/list": {"tools": [tool("t")]}}.get(asked["method"])
                end = {"error": {"code": -32601, "message": "no"}} if found is None else {"result": found}
                await socket.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **end}))

    async with listening(handle) as url, Runtime(mcp.websocket(url, namespace="w", manifest=False)) as runtime:
        outcome = await runtime.call("w__t", {})
    assert isinstance(outcome, Failed)
    assert "1011: ared" in outcome.message
    assert is_clean(outcome.message)
    assert all(is_clean(record.getMessage()) for record in caplog.records)


def test_no_log_record_contains_control_characters_or_line_breaks_of_a_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with log_on_stderr():
        words = EVIL.replace("\U000e0100", "")
        logging.getLogger("surehand.mcp.x").warning("It says: %s\nerror: forged", words)
    stderr = capsys.readouterr().err
    assert is_clean(stderr)
    assert "\\u001b]0;title\\u0007" in stderr
    assert "\n  error: forged" in stderr


def test_non_finite_numbers_become_null() -> None:
    nan, inf = float("nan"), float("inf")
    done = done_from_result({"content": [], "structuredContent": {"a": [nan, 1.5, {"b": -inf}]}, "_meta": {"c": inf}})
    assert done.data == {"a": [None, 1.5, {"b": None}]}
    assert done.metadata == {"_meta": {"c": None}}


# Nothing is sent twice


@asynccontextmanager
async def web(
    status: int, body: str | dict[str, Any] = "no", session: bool = False
) -> AsyncIterator[tuple[str, list[Any]]]:
    """A server that answers every call with a status; gives its URL and the calls that came."""
    calls: list[Any] = []

    async def handle(asked: RawRequest) -> None:
        method = asked.message.get("method") if asked.method == "POST" else asked.method
        if method == "initialize":
            await asked.result(VERSION, **({"mcp_session_id": "one"} if session else {}))
        elif method == "tools/list":
            await asked.result({"tools": [tool("t")]})
        elif method == "tools/call":
            calls.append(asked.message)
            await asked.answer(status, body)
        else:
            await asked.answer(405 if asked.method == "GET" else 202)

    async with serve_raw_http(handle) as url:
        yield f"{url}/mcp", calls


@pytest.mark.parametrize(
    ("status", "code"),
    [
        *((status, "failed") for status in (400, 404, 405, 410, 413, 415, 418, 422)),
        *((status, "unknown_effect") for status in (408, 409, 425, 429, 499, 500, 502, 503)),
    ],
)
async def test_a_call_refused_with_an_http_status_is_not_sent_again(status: int, code: str) -> None:
    async with web(status) as (url, calls), Runtime(mcp.http(url, namespace="h", manifest=False)) as runtime:
        outcome = await runtime.call("h__t", {})
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.executed, len(calls)) == (code, True, 1)


@pytest.mark.parametrize("status", [404, 410])
async def test_only_a_lost_session_lets_a_refused_call_be_sent_again(status: int) -> None:
    async with web(status, session=True) as (url, _), connected(HttpAddress(url)) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("t", {})
    failure = failure_from_error(caught.value)
    assert (failure.is_retryable, failure.is_connection_lost, failure.status) == (True, True, status)


@pytest.mark.parametrize("status", [401, 403])
def test_a_401_means_not_executed_and_is_not_retried(status: int) -> None:
    failure = failure_from_status("host", status, has_session=True)
    assert (failure.was_sent, failure.is_retryable, failure.is_permanent) == (False, False, True)


@pytest.mark.parametrize(("status", "again", "answered"), [(400, False, True), (404, True, False), (503, False, False)])
async def test_statuses_mean_the_same_over_sse(status: int, again: bool, answered: bool) -> None:
    streams: list[RawRequest] = []

    async def sse_server(asked: RawRequest) -> None:
        if asked.method == "GET":
            streams.append(asked)
            await asked.events("event: endpoint\ndata: /messages")
            await asyncio.Event().wait()
        elif asked.message.get("method") == "initialize":
            await asked.answer(202)
            await streams[0].event(
                f"data: {json.dumps({'jsonrpc': '2.0', 'id': asked.message['id'], 'result': VERSION})}"
            )
        else:
            await asked.answer(status if asked.message.get("method") == "tools/call" else 202)

    async with serve_raw_http(sse_server) as url, connected(SseAddress(f"{url}/sse")) as client:
        with pytest.raises(RequestFailed) as caught:
            await client.call_tool("t", {})
        failure = failure_from_error(caught.value)
        assert (failure.is_retryable, failure.is_server_answer) == (again, answered)


async def test_a_servers_message_never_means_that_nothing_was_executed() -> None:
    for code, words in ((-32600, "Session terminated"), (HEADER_MISMATCH, "look again"), (-32001, "no"), (1, "x")):
        failure = failure_from_error(MCPError(code=code, message=words))
        assert (failure.is_retryable, failure.has_stale_headers) == (False, False), words


async def test_a_message_that_claims_a_lost_session_does_not_reconnect(tmp_path: Path) -> None:
    async with speaking(tmp_path) as (runtime, bad):
        refusal = message(id="$ID", error={"code": -32600, "message": "Session terminated"})
        outcome = await bad({"do": "note"}, refusal)
        assert (outcome.code, outcome.message) == ("failed", "bad says: Session terminated")
        assert (await runtime.call("bad__echo", {"text": "on"})).data == "on"
    assert (tmp_path / "bad" / "effects").read_text() == "noted\n"


async def test_a_header_mismatch_over_http_is_retryable_after_a_relist() -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": HEADER_MISMATCH, "message": f"Mcp-Param {EVIL}"}}
    async with web(400, error) as (url, _), connected(HttpAddress(url)) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("t", {})
    failure = failure_from_error(caught.value)
    assert (failure.has_stale_headers, failure.is_retryable, failure.is_server_answer, is_clean(failure.message)) == (
        True,
        True,
        False,
        True,
    )
    assert caught.value.code == HEADER_MISMATCH


# Lists


@pytest.mark.parametrize("junk", ["0", "{}", '{"name":1}'])
async def test_a_list_of_a_million_malformed_tools_does_not_block_the_event_loop(tmp_path: Path, junk: str) -> None:
    count = 3_000_000 // (len(junk) + 1)
    steps = [raw('{"tools":[').rstrip("}\n"), times(f"{junk},", count), f"{junk}]}}}}\n"]
    flood = {"tools/list": [{"say": step} if isinstance(step, str) else step for step in steps]}
    with LoopTimer() as turns, recorded("surehand") as records:
        async with Runtime(hostile_provider(tmp_path / "bad", said=flood, start_timeout=2)) as runtime:
            assert len(runtime.catalogue) == 0
    assert turns.longest_seconds < 0.3
    assert len(records) < 30


async def test_many_malformed_tools_reject_the_list_and_a_few_are_logged_one_by_one(tmp_path: Path) -> None:
    for bad, good in ((19, 1_000), (21, 0)):
        tools = [*({"name": n} for n in range(bad)), *(tool(f"t{n}") for n in range(1_000))]
        with recorded("surehand.mcp.bad") as records:
            async with Runtime(
                hostile_provider(tmp_path / f"{bad}", said={"tools/list": [{"say": answer({"tools": tools})}]})
            ) as runtime:
                assert len(runtime.catalogue) == good
        assert len([each for each in records if "is left out" in each.getMessage()]) == (bad if good else 0)


# Weight

HEAVY = {
    "a million empty lists": '{"content":[],"structuredContent":{"x":[' + "[]," * 1_300_000 + "[]]}}",
    "a million empty objects beside": '{"content":[],"_meta":{"x":[' + "{}," * 1_300_000 + "{}]}}",
    "many blocks": '{"content":[' + '{"type":"text","text":""},' * 150_000 + '{"type":"text","text":""}]}',
    "more blocks than are taken": '{"content":['
    + '{"type":"text","text":"a"},' * 15_000
    + '{"type":"text","text":""}]}',
    "blocks that are numbers": '{"content":[' + "0," * 200_000 + "0]}",
}


@pytest.mark.parametrize("what", HEAVY)
async def test_a_response_with_too_many_values_fails_without_blocking_the_event_loop(tmp_path: Path, what: str) -> None:
    (tmp_path / "bad").mkdir()
    async with speaking(tmp_path) as (runtime, _):
        assert (await runtime.call("bad__echo", {"text": "warm"})).ok
        replace_file(tmp_path / "bad" / "said.json", json.dumps({"tools/call": [{"say": raw(HEAVY[what])}]}))
        with LoopTimer() as turns:
            outcome = await runtime.call("bad__echo", {"text": "x"})
        (tmp_path / "bad" / "said.json").unlink()
        assert isinstance(outcome, Failed)
        assert "in it, which is not read. Ask for less at once." in outcome.message
        assert turns.longest_seconds < 0.6
        assert (await runtime.call("bad__echo", {"text": "well"})).ok


async def test_a_response_with_too_many_values_fails_over_http() -> None:
    body = '{"jsonrpc":"2.0","id":$ID,"result":' + HEAVY["a million empty lists"] + "}"
    async with serve_raw_http(_answers(body)) as url, connected(HttpAddress(url)) as client:
        with LoopTimer() as turns, pytest.raises(MCPError) as caught:
            await client.call_tool("t", {})
    assert failure_from_error(caught.value).code == "too_large"
    assert turns.longest_seconds < 0.3


def _answers(body: str) -> Any:
    async def handle(asked: RawRequest) -> None:
        if asked.method != "POST" or "id" not in asked.message:
            await asked.answer(405 if asked.method == "GET" else 202)
        elif asked.message["method"] == "initialize":
            await asked.result(VERSION)
        else:
            text = body.replace("$ID", json.dumps(asked.message["id"]))
            await asked.answer(200, text, content_type="application/json")

    return handle


async def test_a_response_with_too_many_values_fails_in_an_event_stream() -> None:
    async def handle(asked: RawRequest) -> None:
        if asked.method != "POST" or "id" not in asked.message:
            await asked.answer(405 if asked.method == "GET" else 202)
        elif asked.message["method"] == "initialize":
            await asked.result(VERSION)
        else:
            number = json.dumps(asked.message["id"])
            await asked.events(
                'data: {"jsonrpc":"2.0","id":' + number + ',"result":' + HEAVY["a million empty lists"] + "}"
            )
            await asyncio.Event().wait()

    async with serve_raw_http(handle) as url, connected(HttpAddress(url)) as client:
        with LoopTimer() as turns, pytest.raises(MCPError) as caught:
            await client.call_tool("t", {})
    assert "more than 250,000 values" in failure_from_error(caught.value).message
    assert turns.longest_seconds < 0.3


def test_events_are_counted_one_by_one_however_they_are_split() -> None:
    limit = EventStreamLimit(SERVER_MESSAGE_LIMITS.max_values)
    event = f"data: {json.dumps([[]] * 1_000)}".encode()
    for _ in range(400):
        assert not any(limit.is_exceeded_by(piece) for piece in (event[:50], event[50:], b"\n", b"\r\n"))
    assert any(limit.is_exceeded_by(event) for _ in range(400))


def test_a_text_counts_as_one_value_whatever_it_contains() -> None:
    table = json.dumps({"text": 'a,"b",[c],\\\\' * 200_000})
    most = SERVER_MESSAGE_LIMITS.max_values
    assert not has_too_many_values(table.encode(), most)
    assert has_too_many_values(json.dumps([[]] * most).encode(), most)


def test_too_many_blocks_are_too_large() -> None:
    with pytest.raises(ToolError) as caught:
        done_from_result({"content": [{"type": "text", "text": ""}] * (MAX_CONTENT_BLOCKS + 1)})
    assert caught.value.code == "too_large"


def test_a_heavy_result_is_recognised_quickly() -> None:
    light = {"content": [{"type": "text", "text": "a" * 1_000}], "structuredContent": {"x": list(range(1_000))}}
    heavy: list[dict[str, Any]] = [
        {"content": [{}] * 1_000},
        {"content": [{"type": "text", "text": "a" * 100_000}]},
        {"content": [], "structuredContent": {"x": [[] for _ in range(200_000)]}},
        {"content": [], "_meta": {"x": [{} for _ in range(200_000)]}},
    ]
    assert not is_heavy(light)
    for each in heavy:
        began = time.thread_time()
        assert is_heavy(each)
        assert time.thread_time() - began < 0.05


def test_the_patterns_of_all_schemas_of_a_server_share_one_budget(caplog: pytest.LogCaptureFixture) -> None:
    def schema(number: int) -> ServerSchema:
        return ServerSchema(
            {"type": "string", "anyOf": [{"pattern": f"^{number}x{n}$"} for n in range(10)]}, where="s: t"
        )

    with pattern_budget(25):
        checks = [schema(number).is_enforced for number in range(4)]
    assert checks == [True, True, False, False]
    assert "more than 5,000 patterns altogether" in caplog.text
    assert schema(5).is_enforced


# Floods


@pytest.mark.parametrize("line", ["", "{}", "[]", '{"jsonrpc":"2.0","id":99999,"result":{}}'])
async def test_a_flood_of_meaningless_lines_does_not_block_the_event_loop(tmp_path: Path, line: str) -> None:
    async with speaking(tmp_path) as (_, bad):
        with LoopTimer() as turns, recorded("surehand") as records:
            assert await bad(times(f"{line}\n", 50_000), answer(said("ok"))) == Done("ok")
    assert turns.longest_seconds < 0.25
    assert len(records) < 50


async def test_malformed_notifications_are_counted_and_not_logged_one_by_one(tmp_path: Path) -> None:
    async with speaking(tmp_path) as (_, bad):
        with recorded("client") as written, recorded("mcp") as others:
            assert await bad(times(notice("progress", bad=1), 150), answer(said("ok"))) == Done("ok")
    assert (len(written), len(others)) == (0, 0)


@pytest.mark.parametrize("order", ["first", "last"])
async def test_a_call_whose_long_response_is_malformed_fails(tmp_path: Path, order: str) -> None:
    long = '"result":"' + "x" * 200_000 + '"'
    parts = ['"id":$ID', long] if order == "first" else [long, '"id":$ID']
    async with speaking(tmp_path) as (_, bad):
        outcome = await bad('{"jsonrpc":"2.0",' + ",".join(parts) + "}\n")
    assert outcome.code == "unknown_effect"
    assert "not a JSON-RPC message" in outcome.message


def test_a_failure_is_retryable_only_if_nothing_was_sent_and_it_is_not_permanent() -> None:
    assert ConnectionFailure(False, True, "").is_retryable
    assert not ConnectionFailure(True, True, "").is_retryable
    assert not ConnectionFailure(False, True, "", is_permanent=True).is_retryable
    assert not ConnectionFailure(False, False, "", is_server_answer=True).is_retryable
