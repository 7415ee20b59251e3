"""The direct path over stdio: results go straight to their caller, in order, with the same meaning as elsewhere."""

import asyncio
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import surehand.providers.mcp.connection.tool_call  # noqa: F401 - it takes a second, which is no test's own
from surehand import Runtime, mcp
from surehand.providers.mcp.connection.direct_call import DirectToolCalls
from surehand.providers.mcp.tools.plain_result import MAX_DIRECT_BYTES
from surehand.providers.mcp.transports.stdio import LineChannel, StdioTransport
from surehand.sandbox.pipes import PipeStreamReader

pytestmark = pytest.mark.timeout(30, func_only=True)
ERAS = ("legacy", "2026-07-28")
SERVER = """
import json, os, sys
ERA, LAST, LISTED = sys.argv[1], {}, {}
if ERA != "legacy":
    LAST, LISTED = {"resultType": "complete"}, {"ttlMs": 0, "cacheScope": "private"}
def write(text):
    data = text.encode("utf-8", "surrogatepass")
    while data:
        data = data[os.write(1, data):]
def tell(number, result):
    write(json.dumps({"jsonrpc": "2.0", "id": number, "result": {**result, **LAST}}) + "\\n")
HELD = []
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    number, method, params = message["id"], message["method"], message.get("params") or {}
    if method == "initialize" and ERA == "legacy":
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
        tell(number, {"protocolVersion": "2025-11-25", **about})
    elif method == "server/discover" and ERA != "legacy":
        tell(number, {"supportedVersions": [ERA], "capabilities": {"tools": {}}, **LISTED})
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("say", "raw", "hold")]
        tell(number, {"tools": tools, **LISTED})
    elif method == "tools/call" and params["name"] == "raw":
        tell(number, {"content": [], "structuredContent": {"line": line}})
    elif method == "tools/call" and params["name"] == "hold":
        HELD.append((number, params["arguments"]["n"]))
        if len(HELD) == params["arguments"]["of"]:
            write("".join(json.dumps({"jsonrpc": "2.0", "id": number, "result": {
                "content": [], "structuredContent": {"n": n}, **LAST}}) + "\\n" for number, n in HELD[::-1]))
            HELD.clear()
    elif method == "tools/call":
        for text in params["arguments"]["texts"]:
            write(text.replace("$ID", str(number)).replace("$LAST", json.dumps(LAST)[1:-1] or '"_meta":{}'))
    else:
        write(json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}}) + "\\n")
"""


@pytest.fixture
def server(tmp_path: Path):
    (tmp_path / "server.py").write_text(SERVER)

    def made(era="legacy", **options):
        given = {"namespace": "x", "manifest": False, "protocol": "auto", **options}
        return mcp.stdio(sys.executable, "-I", "-S", str(tmp_path / "server.py"), era, **given)

    return made


def answer(result: str = '{"content":[{"type":"text","text":"ok"}],$LAST}', number: str = "$ID", more: str = "") -> str:
    return f'{{"jsonrpc":"2.0","id":{number},"result":{result}{more}}}\n'


def progress(done: int) -> str:
    params = f'{{"progressToken":$ID,"progress":{done},"total":4}}'
    return f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}\n'


LARGE = '{"content":[{"type":"text","text":"' + "x" * 2 * MAX_DIRECT_BYTES + '"}],$LAST}'
SAID: dict[str, list[str]] = {
    "plain": [answer()],
    "plain with white space": [answer().replace(":", " :\t").replace("\n", "\r\n")],
    "with structure": [answer('{"content":[],"structuredContent":{"a":[1,2.5,null]},"isError":false,$LAST}')],
    "an error": [answer('{"content":[{"type":"text","text":"no"}],"isError":true,$LAST}')],
    "in two pieces": [answer()[:20], answer()[20:]],
    "twice": [answer() + answer()],
    "with the next one begun": [answer() + answer()[:10], answer()[10:]],
    "large": [answer(LARGE)],
    "after words of no protocol": ["{bad\n\n\0\n5\nnull\n[]\n" + answer()],
    "after an empty line": ["\n" + answer()],
    "after one for nobody": [answer(number="7") + answer()],
    "under a number as text": [answer(number='"$ID"')],
    "under a number with a fraction": [answer('{"content":[],$LAST}', "$ID.0"), answer()],
    "under true": [answer(number="true"), answer()],
    "with one key more": [answer(more=',"x":1')],
    "with an error too": [answer(more=',"error":{"code":1,"message":"x"}')],
    "with a method too": [answer(more=',"method":"ping"'), answer()],
    "keys twice": ['{"jsonrpc":"2.0","id":7,"id":$ID,"result":{"content":[{"type":"text","text":"ok"}],$LAST}}\n'],
    "results twice": [answer(more=',"result":{"content":[],$LAST}')],
    "no version": [answer().replace('"jsonrpc":"2.0",', "")],
    "another version": [answer().replace("2.0", "1.0")],
    "no object": [answer("[]")],
    "no result": [answer("null")],
    "an empty result": [answer("{}")],
    "content that is a text": [answer('{"content":"x",$LAST}')],
    "an image": [answer('{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}],$LAST}')],
    "annotations": [answer('{"content":[{"type":"text","text":"a","annotations":{"priority":0.5}}],$LAST}')],
    "numbers without end": [answer('{"content":[],"structuredContent":{"a":[NaN,-Infinity,1e999]},$LAST}')],
    "a number of many digits": [answer('{"content":[],"structuredContent":{"a":1' + "0" * 400 + "},$LAST}")],
    "half a surrogate": [answer('{"content":[{"type":"text","text":"\\ud800"}],$LAST}')],
    "bytes of no text": [answer('{"content":[{"type":"text","text":"\udc80"}],$LAST}')],
    "as deep as a well": [answer('{"content":[],"structuredContent":{"a":' + "[" * 500 + "]" * 500 + "},$LAST}")],
    "quite deep": [answer('{"content":[],"structuredContent":{"a":' + "[" * 150 + "]" * 150 + "},$LAST}")],
    "a number beyond all digits": [answer('{"content":[],"structuredContent":{"a":' + "9" * 5_000 + "},$LAST}")],
    **{
        f"an error flag of {flag}": [answer(f'{{"content":[{{"type":"text","text":"x"}}],"isError":{flag},$LAST}}')]
        for flag in ("[]", '""', "0", '"no"', "2", '"maybe"')
    },
    "no word on whether it is complete": [answer('{"content":[{"type":"text","text":"ok"}]}')],
    "what only the newer protocol says": [answer('{"content":[],"resultType":"complete"}')],
    "an error of the protocol": ['{"jsonrpc":"2.0","id":$ID,"error":{"code":-32602,"message":"bad"}}\n'],
    "a result that names versions": [answer('{"content":[],"supportedVersions":["2026-07-28"],$LAST}')],
}


async def outcomes(made: Any) -> dict[str, Any]:
    found = {}
    async with Runtime(made) as runtime:
        for what, texts in SAID.items():
            said = await runtime.call("x__say", {"texts": texts})
            found[what] = (said.ok, said.text, said.data) if said.ok else (said.code, said.message, said.data)
            assert (await runtime.call("x__say", {"texts": [answer()]})).text == "ok", what
    return found


@pytest.mark.parametrize("era", ERAS)
async def test_a_response_means_the_same_on_the_direct_path_and_through_the_session(server, era, monkeypatch):
    straight = await outcomes(server(era))
    monkeypatch.setattr(StdioTransport, "deliver_results_to", lambda self, receiver: None)
    around = await outcomes(server(era))

    assert straight == around
    assert straight["plain"] == (True, "ok", "ok")
    unreadable = [found[0] for what, found in straight.items() if "flag" in what or "digits" in what or "well" in what]
    assert unreadable[1:] == ["unknown_effect"] * 8  # without waiting for the timeout


@pytest.mark.parametrize("era", ERAS)
async def test_a_plain_result_wakes_only_its_caller(server, era, monkeypatch):
    read = []
    monkeypatch.setattr(DirectToolCalls, "receive_response", lambda self, message: read.append(message) or False)

    async with Runtime(server(era)) as runtime:
        before = len(read)
        for what in ("plain", "plain with white space", "with structure", "an error"):
            await runtime.call("x__say", {"texts": SAID[what]})
        assert len(read) == before

        await runtime.call("x__hold", {"n": 0, "of": 1})  # it asks nothing, and so many of it go at once
        held = await asyncio.gather(*(runtime.call("x__hold", {"n": n, "of": 50}) for n in range(50)))
        assert [each.data["n"] for each in held] == list(range(50))
        assert len(read) == before


async def test_earlier_messages_are_handled_before_a_result(server):
    async def received_progress(*texts: str) -> list[Any]:
        events = [event async for event in runtime.stream("x__say", {"texts": texts})]
        return [getattr(event, "progress", None) for event in events]

    async with Runtime(server()) as runtime:
        together = await received_progress(progress(1) + progress(2) + progress(3) + answer())
        apart = await received_progress(progress(1), progress(2), progress(3), answer())
        cut = await received_progress(
            progress(1) + progress(2)[:9], progress(2)[9:] + progress(3) + answer()[:9], answer()[9:]
        )

    assert together == apart == cut
    assert len(together) >= 4


def channel_with_feed():
    """What a child writes, as it is fed; lines that begin with an `a` are taken the moment they come."""
    child: Any = SimpleNamespace(stdout=PipeStreamReader())
    channel: Any = LineChannel(child, 2 * MAX_DIRECT_BYTES, Any)
    delivered: list[bytes] = []
    channel.deliver_lines_to(lambda line: line.startswith(b"a") and not delivered.append(line))
    return channel, child.stdout.feed_data, delivered


async def test_lines_are_delivered_directly_while_no_earlier_line_waits():
    channel, feed, delivered = channel_with_feed()
    reading = asyncio.create_task(channel.receive())
    await asyncio.sleep(0)

    feed(b"a1\na2\n")
    assert delivered == [b"a1", b"a2"]
    feed(b"a3\nb\na4\n")
    assert delivered == [b"a1", b"a2", b"a3"]
    feed(b"a5\n")  # the reader has not had its turn yet

    assert await reading == [b"b", b"a4", b"a5"]
    assert delivered == [b"a1", b"a2", b"a3"]


async def test_no_line_is_delivered_directly_while_earlier_lines_are_unhandled():
    channel, feed, delivered = channel_with_feed()

    feed(b"a1\n")
    assert await channel.receive() == [b"a1"]
    feed(b"a2\n")
    assert await channel.receive() == [b"a2"]

    assert not delivered


async def test_the_rest_of_a_partial_line_is_not_delivered_as_a_line():
    channel, feed, delivered = channel_with_feed()
    reading = asyncio.create_task(channel.receive())
    await asyncio.sleep(0)

    feed(b"a1\na2, ")
    for _ in range(4):
        await asyncio.sleep(0)
    feed(b"and more\na3\n")

    assert await reading == [b"a2, and more", b"a3"]
    assert delivered == [b"a1"]


async def test_a_large_line_is_not_delivered_directly():
    channel, feed, delivered = channel_with_feed()
    reading = asyncio.create_task(channel.receive())
    await asyncio.sleep(0)

    large = b"a" * MAX_DIRECT_BYTES
    feed(large + b"\n")
    feed(large + b"a\n")

    assert await reading == [large + b"a"]
    assert delivered == [large]


ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"a": 1, "b": [1.5, None, True, {"c": "d"}]},
    {"text": 'ü \u2028 \x00 \U0001f600 "quoted" \\ / <&>'},
    {"n": 10**30, "small": 1e-9, "large": 1e300, "zero": -0.0},
    {"_meta": {"x": 1}, "name": "y"},
]


@pytest.mark.parametrize("era", ERAS)
async def test_a_request_is_written_at_once_and_equals_that_of_the_session(server, era, monkeypatch):
    async def written() -> list[str]:
        async with Runtime(server(era)) as runtime:
            lines = [(await runtime.call("x__raw", each)).data["line"] for each in ARGUMENTS]
        return [re.sub(r'("(?:id|progressToken)"):\d+', r"\1:0", line) for line in lines]

    at_once = await written()
    monkeypatch.setattr(StdioTransport, "try_send_call", lambda *call: False)
    in_turn = await written()

    assert at_once == in_turn
    assert [json.loads(line)["params"].get("arguments") for line in at_once] == ARGUMENTS
