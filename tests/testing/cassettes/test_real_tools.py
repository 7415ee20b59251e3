"""Cassettes of a web server, a child process and people, replayed without any of them."""

import asyncio
import json
import sys
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from surehand import Call, Context, Done, Failed, Provider, Tool, tool
from surehand.core.content import Text
from surehand.core.errors import NotFound, Unavailable
from surehand.testing import Unscripted, cassette, runtime, settle

pytestmark = pytest.mark.timeout(30)  # processes take their time on a busy machine


@pytest.fixture
def file(tmp_path):
    return tmp_path / "tape.json"


# A web server


class Page(BaseHTTPRequestHandler):
    """Answers differently each time, so that a replay cannot be mistaken for a new answer."""

    def do_GET(self) -> None:
        self.server.hits += 1
        found = self.path != "/gone"
        body = f"<h1>{self.path}</h1>\n<p>é, visit {self.server.hits}</p>\n".encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def web_server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        server.hits = 0
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class Web:
    """A client of one web server."""

    def __init__(self, port: int) -> None:
        self.port = port

    @tool(effects={"read", "network"})
    def fetch(self, path: str) -> Done:
        """Fetch a page."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read().decode()
        except OSError as error:
            raise Unavailable(f"no answer: {error}") from error
        finally:
            connection.close()
        if answer.status == 404:
            raise NotFound(f"No page {path!r}.", data={"status": 404})
        return Done(text, title=path, metadata={"status": answer.status})


async def browse(file, web: Web) -> list[Any]:
    with cassette(file) as tape:
        async with runtime(web, middleware=[tape]) as rt:
            return [await rt.call("fetch", {"path": path}) for path in ("/a", "/b", "/a", "/gone")]


async def test_an_http_tool_is_replayed_when_the_server_is_down(file) -> None:
    with web_server() as server:
        web = Web(server.server_port)
        first = await browse(file, web)
    second = await browse(file, web)

    assert server.hits == 4
    assert "visit 3" in first[2].text
    assert second == first
    assert [outcome.text.encode() for outcome in second] == [outcome.text.encode() for outcome in first]
    assert second[0].metadata == {"status": 200}
    assert second[3] == Failed("not_found", "No page '/gone'.", executed=True, data={"status": 404})


async def test_a_page_that_was_not_recorded_is_named_and_not_fetched(file) -> None:
    with web_server() as server:
        web = Web(server.server_port)
        await browse(file, web)
        tape, message = cassette(file), r'fetch\(\{"path":"/c"\}\) is not recorded in .*tape.json'
        with pytest.raises(Unscripted, match=message), tape:
            async with runtime(web, middleware=[tape]) as rt:
                outcome = await rt.call("fetch", {"path": "/c"})
        assert server.hits == 4

    assert 'Nearest recorded: fetch({"path":"/a"})' in outcome.text


# A child process that speaks JSON-RPC, as MCP servers do

CHILD = r"""
import json, os, sys

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = [{"name": "read_note", "description": "Read a note.", "inputSchema": SCHEMA}]

def answer(method, params):
    if method == "tools/list":
        return {"tools": TOOLS}
    path = params["arguments"]["path"]
    if path == "secret":
        return {"isError": True, "content": [{"type": "text", "text": "not yours"}]}
    return {"content": [{"type": "text", "text": f"note {path}"}, {"type": "text", "text": f"process {os.getpid()}"}]}

for line in sys.stdin:
    request = json.loads(line)
    result = answer(request["method"], request.get("params"))
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


class Notes(Provider):
    """A provider in another process."""

    kind = "mcp"
    namespace = "notes"

    def __init__(self, *command: str) -> None:
        self._command, self._child, self._last = command, None, 0

    async def start(self) -> None:
        pipe = asyncio.subprocess.PIPE
        try:
            self._child = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe)
        except OSError as error:
            raise Unavailable(str(error)) from error

    async def stop(self) -> None:
        self._child.stdin.close()
        await self._child.wait()

    async def ask(self, method: str, params: Any = None) -> Any:
        self._last += 1
        request = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        self._child.stdin.write(json.dumps(request).encode() + b"\n")
        return json.loads(await self._child.stdout.readline())["result"]

    async def tools(self) -> list[Tool]:
        listed = (await self.ask("tools/list"))["tools"]
        return [
            tool.external(each["name"], each["description"], parameters=each["inputSchema"]).evolve(
                handler=None, kind="mcp"
            )
            for each in listed
        ]

    async def invoke(self, call: Call, context: Context) -> Any:
        result = await self.ask("tools/call", {"name": call.tool, "arguments": call.arguments})
        blocks = [Text(block["text"]) for block in result["content"]]
        return Failed("failed", blocks[0].text) if result.get("isError") else blocks

    def instructions(self, principal: Any) -> str:
        return "Notes are short." if self._child else ""


async def look_up(file, notes: Notes) -> tuple[list[Any], Any, str]:
    with cassette(file) as tape:
        async with runtime(tape.provider(notes), middleware=[tape]) as rt:
            outcomes = [await rt.call("notes__read_note", {"path": path}) for path in ("a", "secret", "b")]
            return outcomes, rt.describe("mcp"), rt.instructions()


async def test_a_provider_in_a_child_process_is_replayed_without_the_child(file) -> None:
    first, described, instructions = await look_up(file, Notes(sys.executable, "-c", CHILD))
    second, described_again, instructions_again = await look_up(file, Notes("no-such-program"))

    assert first[0].content[0] == Text("note a")
    assert first[1] == Failed("failed", "not yours", executed=True)
    assert second == first
    assert [outcome.text.encode() for outcome in second] == [outcome.text.encode() for outcome in first]
    assert described_again == described
    assert "Notes are short." in instructions == instructions_again


async def test_recorded_tools_still_check_their_arguments(file) -> None:
    await look_up(file, Notes(sys.executable, "-c", CHILD))

    with cassette(file) as tape:
        async with runtime(tape.provider(Notes("no-such-program")), middleware=[tape]) as rt:
            outcome = await rt.call("notes__read_note", {"file": "a"})

    assert outcome.code == "invalid_arguments"


async def test_a_call_of_a_provider_that_was_not_recorded_is_named(file) -> None:
    await look_up(file, Notes(sys.executable, "-c", CHILD))

    tape = cassette(file)
    with pytest.raises(Unscripted, match=r'notes__read_note\(\{"path":"c"\}\) is not recorded'), tape:
        async with runtime(tape.provider(Notes("no-such-program")), middleware=[tape]) as rt:
            await rt.call("notes__read_note", {"path": "c"})


# People

QUESTION = {"type": "object", "properties": {"text": {"type": "string"}}}
ask = tool.client("ask", "Ask, and wait.", parameters=QUESTION, reply="wait", timeout=60)
post = tool.client("post", "Ask, and go on.", parameters=QUESTION, reply="later", display={"form": "long"})


async def test_a_client_tool_that_waits_is_replayed_without_a_person(file) -> None:
    with cassette(file) as tape:
        async with runtime(ask, middleware=[tape]) as rt:
            call = asyncio.ensure_future(rt.call("ask", {"text": "Tea?"}, call_id="c1"))
            await settle()
            await rt.settle("c1", {"tea": "ja, ☕"})
            first = await call
    with cassette(file) as tape:
        async with runtime(ask, middleware=[tape]) as rt:
            second = await rt.call("ask", {"text": "Tea?"})
            assert await rt.pending() == []

    assert first == second == Done({"tea": "ja, ☕"})
    assert first.text.encode() == second.text.encode()
    assert "waits" not in file.read_text()


async def test_a_client_tool_whose_person_was_late_is_replayed_as_pending_first(file) -> None:
    with cassette(file) as tape:
        async with runtime(ask, middleware=[tape]) as rt:
            call = asyncio.ensure_future(rt.call("ask", call_id="c1"))
            await rt.clock.advance(60)
            assert not (await call).ok
            assert (await rt.settle("c1", "at last")).ok
    with cassette(file) as tape:
        async with runtime(ask, middleware=[tape]) as rt:
            pending = await rt.call("ask")
            assert (await rt.settle(pending.call_id)).unwrap() == "at last"


async def test_a_client_tool_that_answers_later_is_pending_and_then_ends_as_recorded(file) -> None:
    outcomes = []
    for answer in ({"rating": 5}, {"rating": 5}, None):
        with cassette(file) as tape:
            async with runtime(post, middleware=[tape]) as rt:
                pending = await rt.call("post", {"text": "How was it?"}, call_id="c1")
                (wait,) = await rt.pending()
                outcomes.append((pending.message, wait.request, await rt.settle("c1", answer)))

    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert outcomes[0][1:] == ({"form": "long"}, Done({"rating": 5}))
    assert len({outcome.text for _, _, outcome in outcomes}) == 1


async def posted(file, *answers: Any) -> None:
    with cassette(file) as tape:
        async with runtime(post, middleware=[tape]) as rt:
            await rt.call("post", call_id="c1")
            for answer in answers:
                await rt.settle("c1", answer)


async def test_another_answer_than_the_recorded_one_fails_the_test(file) -> None:
    await posted(file, "yes")

    with pytest.raises(Unscripted, match='answered with "no", and recorded with the answer "yes"'):
        await posted(file, "no")


async def test_an_answer_to_a_recording_without_one_fails_the_test(file) -> None:
    await posted(file)

    with pytest.raises(Unscripted, match="It had no answer when it was recorded"):
        await posted(file, "yes")


async def test_a_wait_may_expire_or_be_cancelled_in_a_replay(file) -> None:
    with cassette(file) as tape:
        async with runtime(post, middleware=[tape]) as rt:
            for call_id in ("c1", "c2"):
                await rt.call("post", call_id=call_id)
                await rt.settle(call_id, "yes")

    with cassette(file) as tape:
        async with runtime(post, middleware=[tape], defaults={"pending_ttl": 60}) as rt:
            await rt.call("post", call_id="c1")
            assert await rt.cancel("c1")
            await rt.call("post", call_id="c2")
            await rt.clock.advance(60)
            assert (await rt.settle("c2", "yes")).code == "expired"


async def test_an_approved_client_tool_waits_twice_in_a_replay_too(file) -> None:
    rules = [{"tools": "post", "decision": "ask"}]
    outcomes = []
    for _ in range(2):
        with cassette(file) as tape:
            async with runtime(post, middleware=[tape], policy=rules) as rt:
                assert (await rt.call("post", call_id="c1")).waiting_for == "approval"
                assert (await rt.approve("c1")).waiting_for == "result"
                outcomes.append(await rt.settle("c1", "yes"))

    assert outcomes == [Done("yes"), Done("yes")]


async def test_a_call_that_waits_for_its_nested_call_is_replayed_as_one_pending_call(file) -> None:
    @tool
    async def survey(ctx: Context) -> Any:
        """Ask the people."""
        return await ctx.call("post")

    outcomes = []
    for _ in range(2):
        with cassette(file) as tape:
            async with runtime(survey, post, middleware=[tape]) as rt:
                await rt.call("survey", call_id="c1")
                outcomes.append(await rt.settle("c1", "good"))
            assert tape.unused == []

    assert outcomes == [Done("good"), Done("good")]
