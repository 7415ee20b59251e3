"""A runtime served over stdio: messages, limits, and the end of the connection."""

import asyncio
import os
from typing import Any

import pytest
from mcp_types import INVALID_REQUEST, PARSE_ERROR

from surehand import Context, Provider, Runtime, Tool, tool
from surehand.gateway.mcp.stdio.standard_streams import reserved_standard_streams
from tests.gateway.mcp.raw_client import eventually
from tests.gateway.mcp.stdio_peer import META, TIMEOUT_SECONDS, StdioPeer, call, encode_line, message, stdio_peer
from tests.gateway.mcp.stopped_clock import stopped_clock

MODERN = [False, True]


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def say(text: str) -> str:
    """Say it."""
    return text


@tool
async def odd() -> str:
    """Give what no text on a wire can hold."""
    return "a\ud800b"


@tool
async def crash() -> str:
    """Go wrong."""
    raise RuntimeError("/home/somebody/secret.py")


class Gates:
    """Tools that run until they are let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.open = asyncio.Event()

    @property
    def tool(self) -> Any:
        @tool
        async def wait(name: str = "") -> str:
            """Wait."""
            self.begun.append(name)
            try:
                await self.open.wait()
            finally:
                self.ended.append(name)
            return name

        return wait

    async def until(self, condition: Any) -> None:
        for _ in range(int(TIMEOUT_SECONDS * 200)):
            if condition():
                return
            await asyncio.sleep(0.005)
        raise AssertionError("It has not happened.")


def result(answer: dict[str, Any]) -> Any:
    return answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("modern", MODERN)
async def test_a_client_of_either_protocol_is_served(modern):
    async with stdio_peer(add) as peer:
        if not modern:
            assert (await peer.handshake())["serverInfo"]["name"] == "surehand"
        listed = await peer.ask(message("tools/list", 1, **({"_meta": META} if modern else {})))
        called = await peer.ask(call(2, "add", modern, a=1, b=2))

    assert [each["name"] for each in listed["result"]["tools"]] == ["add"]
    assert called["result"]["structuredContent"] == {"result": 3}


async def test_many_messages_in_one_piece_and_one_message_in_many_pieces():
    async with stdio_peer(add) as peer:
        await peer.send(b"".join(encode_line(call(number, "add", True, a=number, b=1)) for number in range(300)))
        answers = await peer.answers(300)
        for piece in (b"\n", b"\r\n", *(bytes([each]) for each in encode_line(call("slow", "add", True, a=1, b=1)))):
            await peer.send(piece)

        assert {number: answer["result"]["structuredContent"]["result"] for number, answer in answers.items()} == {
            number: number + 1 for number in range(300)
        }
        assert (await peer.receive())["id"] == "slow"


NONSENSE = [
    (b"nonsense", PARSE_ERROR, None),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "ping"', PARSE_ERROR, None),
    (b"\xff\xfe\x00", PARSE_ERROR, None),
    (b"\x00", PARSE_ERROR, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\\ud800"}}', PARSE_ERROR, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xff"}}', PARSE_ERROR, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', PARSE_ERROR, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 40_000, PARSE_ERROR, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"9" * 10_000 + b"}}", PARSE_ERROR, None),
    (b"[]", INVALID_REQUEST, None),
    (encode_line([message("ping", 1), message("ping", 2)])[:-1], INVALID_REQUEST, None),
    (b"17", INVALID_REQUEST, None),
    (b'"text"', INVALID_REQUEST, None),
    (b"null", INVALID_REQUEST, None),
    (b"{}", INVALID_REQUEST, None),
    (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', INVALID_REQUEST, 7),
    (b'{"id":"x","method":"ping"}', INVALID_REQUEST, "x"),
    (b'{"jsonrpc":"2.0","id":7,"method":9}', INVALID_REQUEST, 7),
    (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[1]}', INVALID_REQUEST, 7),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID_REQUEST, None),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', INVALID_REQUEST, None),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID_REQUEST, None),
    (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', INVALID_REQUEST, None),
    (b'{"jsonrpc":"2.0","id":9}', INVALID_REQUEST, 9),
]


@pytest.mark.parametrize("modern", MODERN)
async def test_malformed_messages_are_answered_and_the_connection_stays_open(modern):
    async with stdio_peer(add) as peer:
        if not modern:
            await peer.handshake()
        for sent, code, id in NONSENSE:
            answer = await peer.ask(sent + b"\n")

            assert (answer["error"]["code"], answer["id"]) == (code, id), sent[:80]
            assert len(answer["error"]["message"]) < 200
            assert (await peer.ask(call("good", "add", modern, a=1, b=1)))["id"] == "good"


async def test_unexpected_responses_are_ignored():
    async with stdio_peer(add) as peer:
        await peer.handshake()
        await peer.send({"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": 1, "result": 5})
        await peer.send({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": ""}})

        assert (await peer.ask(call("good", "add", a=1, b=1)))["id"] == "good"


async def test_unknown_methods_and_tools_are_errors_of_that_request():
    async with stdio_peer(add) as peer:
        await peer.handshake()

        assert (await peer.ask(message("no/such", 1)))["error"]["code"] == -32601
        assert (await peer.ask(message("tools/call", 2)))["error"]["code"] == -32602
        assert (await peer.ask(call(3, "sub", a=1)))["error"]["code"] == -32602
        assert (await peer.ask(call(4, "add", True, a=1, b=1)))["error"]["code"] == INVALID_REQUEST
        assert (await peer.ask(call(5, "add", a=1, b=1)))["result"]["isError"] is False


async def test_a_handshake_is_refused_after_requests_without_one():
    async with stdio_peer(add) as peer:
        await peer.ask(call(1, "add", True, a=1, b=1))

        refused = await peer.ask(message("initialize", 2, protocolVersion="2025-11-25"))

    assert refused["error"]["code"] == -32022
    assert refused["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2025-11-25"}


async def test_a_crash_reveals_no_details_to_clients():
    runtime = Runtime(crash, crash_details=False)
    async with stdio_peer(runtime) as peer:
        answer = await peer.ask(call(1, "crash", True))

    assert "secret" not in str(answer)


@pytest.mark.parametrize(
    "sent", [call("big", "say", text="x" * 5000), {**call("big", "say", text="x" * 5000), "id": 4}]
)
@pytest.mark.parametrize("last", [False, True])
async def test_an_overlong_line_is_skipped_and_refused_with_its_id(sent, last):
    async with stdio_peer(say, limits={"max_message_bytes": 1000}) as peer:
        await peer.handshake()
        told = await peer.ask({**{key: sent[key] for key in sent if key != "id"}, "id": sent["id"]} if last else sent)

        assert told["error"]["code"] == INVALID_REQUEST
        assert told["id"] == sent["id"]
        assert result(await peer.ask(call(5, "say", text="short"))) == "short"


async def test_a_hundred_megabytes_in_one_line_are_not_kept():
    async with stdio_peer(say) as peer:
        await peer.handshake()
        for _ in range(100):
            await peer.send(b"x" * (1 << 20))
        told = await peer.ask(b"\n")

        assert told["error"]["code"] == INVALID_REQUEST
        assert result(await peer.ask(call(5, "say", text="short"))) == "short"


@pytest.mark.parametrize("again", [1, "1"])
async def test_an_id_that_is_in_use_is_refused_and_the_first_request_is_still_answered(again):
    gates = Gates()
    async with stdio_peer(gates.tool, add) as peer:
        await peer.handshake()
        await peer.send(call(1, "wait", name="first"))
        await gates.until(lambda: gates.begun)
        refused = await peer.ask(call(again, "wait", name="second"))
        gates.open.set()
        answer = await peer.receive()

        assert (refused["id"], refused["error"]["code"]) == (again, INVALID_REQUEST)
        assert (answer["id"], result(answer)) == (1, "first")
        assert result(await peer.ask(call(1, "add", a=1, b=1))) == "2"


async def test_requests_beyond_what_may_run_wait_for_their_turn_in_order():
    gates = Gates()
    async with stdio_peer(gates.tool, limits={"max_in_flight_requests": 2}) as peer:
        await peer.handshake()
        await peer.send(*(call(number, "wait", name=str(number)) for number in range(5)))
        await gates.until(lambda: len(gates.begun) == 2)
        assert (await peer.ask(message("ping", "p")))["id"] == "p"
        assert gates.begun == ["0", "1"]

        gates.open.set()
        await peer.answers(5)

    assert gates.begun == ["0", "1", "2", "3", "4"]


async def test_a_request_that_waits_for_its_turn_can_be_cancelled_and_so_can_those_before_it():
    gates = Gates()
    async with stdio_peer(gates.tool, add, limits={"max_in_flight_requests": 1}) as peer:
        await peer.handshake()
        await peer.send(*(call(number, "wait", name=str(number)) for number in range(3)), call("sum", "add", a=1, b=1))
        await gates.until(lambda: gates.begun)
        for number in (1, 0, 2):
            await peer.send(message("notifications/cancelled", requestId=number))

        assert (await peer.receive())["id"] == "sum"
        assert gates.begun in (["0"], ["0", "2"])
        assert gates.ended == gates.begun


async def test_answers_get_through_to_requests_that_take_all_the_room():
    @tool(confirm=True)
    async def delete(name: str) -> str:
        """Delete a file."""
        return f"{name} is gone"

    async with stdio_peer(delete, limits={"max_in_flight_requests": 1}) as peer:
        await peer.handshake(elicitation={"form": {}})
        await peer.send(*(call(name, "delete", name=name) for name in "abc"))
        told = {}
        while len(told) < 3:
            came = await peer.receive()
            if came.get("method") == "elicitation/create":
                await peer.send({"jsonrpc": "2.0", "id": came["id"], "result": {"action": "accept", "content": {}}})
            else:
                told[came["id"]] = result(came)

    assert told == {name: f"{name} is gone" for name in "abc"}


async def test_a_malformed_answer_ends_the_question():
    @tool(confirm=True)
    async def delete(name: str) -> str:
        """Delete a file."""
        return f"{name} is gone"

    async with stdio_peer(delete) as peer:
        await peer.handshake(elicitation={"form": {}})
        question = await peer.ask(call(1, "delete", name="x"))
        answer = await peer.ask({"jsonrpc": "2.0", "id": question["id"], "result": "yes"})

    assert question["method"] == "elicitation/create"
    assert answer["id"] == 1
    assert "is gone" not in str(answer)


async def test_requests_beyond_what_may_wait_are_refused():
    gates = Gates()
    async with stdio_peer(gates.tool, limits={"max_in_flight_requests": 1, "max_waiting_bytes": 1000}) as peer:
        await peer.handshake()
        await peer.send(*(call(number, "wait", name=str(number)) for number in range(50)))
        refused = await peer.receive()
        gates.open.set()

        answers = await peer.answers(49)

    assert refused["error"]["code"] == -32000
    assert "Try again" in refused["error"]["message"]
    assert 5 < sum("result" in answer for answer in answers.values()) < 15


@pytest.mark.parametrize("asked", [call(1, "say", True, text="x" * 100_000), b"nonsense\n"])
async def test_a_client_that_does_not_read_is_given_up(asked):
    async with stdio_peer(say, limits={"write_timeout_seconds": 0.3}) as peer:
        peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
        talking = asyncio.create_task(on_and_on(peer, asked))

        await asyncio.wait_for(asyncio.shield(peer.server), TIMEOUT_SECONDS)

        talking.cancel()
        await asyncio.wait({talking})


async def on_and_on(peer: StdioPeer, asked: Any) -> None:
    for number in range(100_000):
        await peer.send({**asked, "id": number} if isinstance(asked, dict) else asked * 1000)
        await asyncio.sleep(0)


async def test_a_client_that_sends_all_before_it_reads_any_is_served():
    async with stdio_peer(say) as peer:
        peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
        await peer.send(*(call(number, "say", True, text="x" * 10_000) for number in range(400)))
        peer.reader._transport.resume_reading()  # type: ignore[attr-defined]

        assert len(await peer.answers(400)) == 400


async def test_lone_surrogates_are_replaced():
    async with stdio_peer(odd) as peer:
        assert result(await peer.ask(call(1, "odd", True))) in ("a?b", "a\ufffdb", "a\\ud800b")


async def test_after_the_end_of_input_quick_requests_are_answered_and_slow_ones_cancelled():
    gates = Gates()
    runtime = Runtime(gates.tool, add)
    async with stdio_peer(runtime) as peer:
        await peer.send(call(1, "wait", True, name="slow"), call(2, "add", True, a=1, b=2))
        peer.close()
        answers = await peer.answers(2)
        await asyncio.wait_for(asyncio.shield(peer.server), TIMEOUT_SECONDS)

    assert answers[2]["result"]["structuredContent"] == {"result": 3}
    assert answers[1]["error"]["code"] == -32000
    assert gates.ended == ["slow"]
    assert not runtime.is_open


async def test_after_the_end_of_input_time_while_the_process_was_suspended_does_not_count(monkeypatch):
    gates = Gates()
    async with stdio_peer(gates.tool) as peer:
        await peer.send(call(1, "wait", True, name="a"))
        await gates.until(lambda: gates.begun)
        with stopped_clock(monkeypatch) as time:
            peer.close()
            await time.advance(2)  # at once, so nobody could have answered meanwhile
            gates.open.set()
            answer = await peer.receive()

    assert result(answer) == "a"


async def test_requests_that_arrive_while_the_runtime_starts_are_answered(monkeypatch):
    may_start = asyncio.Event()

    class Slow(Provider):
        """Starts when it may."""

        namespace = "slow"

        async def start(self) -> None:
            await may_start.wait()

        async def tools(self) -> list[Tool[..., Any]]:
            return []

    with stopped_clock(monkeypatch) as time:
        async with stdio_peer(Slow(), add) as peer:
            await peer.send(call(1, "add", True, a=1, b=2))
            peer.close()
            await time.advance(100)
            may_start.set()
            answer = await peer.receive()

    assert answer["result"]["structuredContent"] == {"result": 3}


async def test_a_runtime_that_runs_already_goes_on_afterwards():
    async with Runtime(add) as runtime:
        async with stdio_peer(runtime) as peer:
            assert (await peer.ask(call(1, "add", True, a=1, b=1)))["id"] == 1

        assert (await runtime.call("add", {"a": 1, "b": 1})).ok


async def test_no_descriptor_is_left():
    before = set(os.listdir("/proc/self/fd"))
    async with stdio_peer(add) as peer:
        await peer.ask(call(1, "add", True, a=1, b=1))

    await eventually(lambda: set(os.listdir("/proc/self/fd")) <= before)


def test_the_streams_of_a_process_are_served_once_at_a_time(capfd):
    with reserved_standard_streams() as (reading, writing):
        os.write(writing, b"the protocol\n")
        os.write(1, b"a child\n")
        print("a handler")
        assert os.read(0, 10) == b""
        with pytest.raises(RuntimeError, match="already"), reserved_standard_streams():
            pass
    print("afterwards", flush=True)

    told = capfd.readouterr()
    assert told.out == "the protocol\nafterwards\n"
    assert told.err == "a child\na handler\n"
    assert reading not in (0, 1, 2)


async def test_calls_have_the_user_of_the_option():
    @tool
    async def who(ctx: Context) -> str:
        """Say who asks."""
        return str(ctx.user)

    async with stdio_peer(who, user="ada") as peer:
        assert result(await peer.ask(call(1, "who", True))) == "ada"
