"""`surehand mcp`, as clients start it and as a person starts it."""

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import PIPE
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from surehand.cli.commands.mcp import NO_STORE_WARNING
from surehand.cli.serve_address import ServeAddress
from tests.gateway.mcp import processes
from tests.gateway.mcp.http_peer import call_request, request
from tests.gateway.mcp.processes import PROCESS_TIMEOUT_SECONDS, PROCESS_TOOLS, http_process, stdio_process
from tests.gateway.mcp.sdk_clients import ERAS
from tests.gateway.mcp.stdio_peer import TIMEOUT_SECONDS, call, encode_line, message
from tests.requirements import needs

surehand = processes.surehand  # a fixture
WARNED = f"warning: {NO_STORE_WARNING}"
MUCH = """
from surehand import tool

@tool(effects={"read"}, max_bytes=200)
async def much() -> list[str]:
    '''Give more than a model is shown.'''
    return [f"row {number}" for number in range(100)]
"""
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_starts_it_and_calls_its_tools(surehand, era):
    program = StdioServerParameters(command=surehand[0], args=[*surehand[1:], "mcp", "--tools", PROCESS_TOOLS])
    async with Client(program, mode=era) as client:
        names = [each.name for each in (await client.list_tools()).tools]
        called = await client.call_tool("add", {"a": 1, "b": 2})

    assert names == ["add", "state", "wait", "block", "run", "delete"]
    assert called.structured_content == {"result": 3}


async def test_nothing_but_the_protocol_is_written_to_stdout(surehand):
    async with stdio_process(surehand, stderr=PIPE) as (peer, process):
        assert (await peer.ask(call(1, "run", True)))["result"]["content"][0]["text"] == "ran"
        peer.close()
        rest, told = await process.communicate()

    assert rest == b""
    assert told.decode().splitlines() == [WARNED, "printed by a handler", "printed by a child", "ended"]


@pytest.mark.parametrize("how", ["end of input", signal.SIGTERM, signal.SIGINT])
async def test_it_ends_quickly_and_cleanly_whatever_runs(surehand, how):
    async with stdio_process(surehand, stderr=PIPE) as (peer, process):
        inside = (await peer.ask(call(0, "state", True)))["result"]["structuredContent"]["pid"]
        await peer.send(call(1, "wait", True), call(2, "block", True), message("ping", 3))
        await peer.receive()
        if isinstance(how, str):
            peer.close()
        else:
            os.kill(inside, how)
        _, told = await asyncio.wait_for(process.communicate(), TIMEOUT_SECONDS)

    assert process.returncode == 0
    assert told.decode() == f"{WARNED}\n"


SLOW = """
import asyncio
from surehand import Provider


class Slow(Provider):
    namespace = "slow"

    async def start(self):
        print("starting", flush=True)
        await asyncio.sleep(60)

    async def tools(self):
        return []


slow = Slow()
"""


@pytest.mark.parametrize("over", [[], ["--http", "--port", "0"]])
async def test_a_signal_ends_it_while_its_tools_are_starting(surehand, tmp_path, over):
    (tmp_path / "slow.py").write_text(SLOW)
    others = surehand.running_pids()
    process = await asyncio.create_subprocess_exec(
        *surehand, "mcp", "--tools", str(tmp_path / "slow.py"), *over, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    assert process.stderr is not None
    assert await asyncio.wait_for(process.stderr.readline(), TIMEOUT_SECONDS) == b"starting\n"
    (inside,) = surehand.running_pids() - others
    os.kill(inside, signal.SIGTERM)
    ended = await asyncio.wait_for(process.communicate(), TIMEOUT_SECONDS)

    assert (process.returncode, *ended) == (0, b"", b"")


def test_stdin_and_stdout_may_be_files(surehand, tmp_path):
    asked, answered = tmp_path / "asked", tmp_path / "answered"
    asked.write_bytes(b"".join(encode_line(call(number, "add", True, a=number, b=1)) for number in range(2000)))
    with asked.open("rb") as source, answered.open("wb") as target:
        ended = subprocess.run(
            [*surehand, "mcp", "--tools", PROCESS_TOOLS],
            stdin=source,
            stdout=target,
            stderr=PIPE,
            timeout=PROCESS_TIMEOUT_SECONDS,
            check=False,
        )

    answers = [json.loads(each) for each in answered.read_text().splitlines()]
    assert (ended.returncode, ended.stderr.decode()) == (0, f"{WARNED}\n")
    assert {each["id"]: each["result"]["structuredContent"]["result"] for each in answers} == {
        number: number + 1 for number in range(2000)
    }


def test_without_input_there_is_nothing_to_do(surehand):
    ended = subprocess.run(
        [*surehand, "mcp", "--tools", PROCESS_TOOLS],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PROCESS_TIMEOUT_SECONDS,
        check=False,
    )

    assert (ended.returncode, ended.stdout, ended.stderr.decode()) == (0, b"", f"{WARNED}\n")


async def test_over_http_it_says_where_and_wants_the_token(surehand):
    with http_process(surehand, "--path", "/tools", "--token-env", "OUR_TOKEN", OUR_TOKEN="s3cret") as (site, _):
        asked = call_request("add", a=1, b=2).replace(b" /mcp ", b" /tools ")
        refused = await site.ask(asked)
        served = await site.ask(asked.replace(b"\r\n", b"\r\nAuthorization: Bearer s3cret\r\n", 1))
        lost = await site.ask(call_request("add", a=1, b=2))

    assert (refused.status, served.status, lost.status) == (401, 200, 404)


def test_over_http_it_prints_how_to_connect(surehand):
    command = [*surehand, "mcp", "--http", "--port", "0", "--tools", PROCESS_TOOLS, "--token-env", "OUR_TOKEN"]
    process = subprocess.Popen(command, stderr=PIPE, stdout=PIPE, text=True, env={**os.environ, "OUR_TOKEN": "s3cret"})
    assert process.stderr is not None
    told = [process.stderr.readline() for _ in range(2)]
    process.kill()
    out, _ = process.communicate()

    assert told[0].startswith("Serving 6 tools over MCP at http://127.0.0.1:")
    assert "claude mcp add --transport http surehand http://127.0.0.1:" in told[1]
    assert told[1].endswith('--header "Authorization: Bearer $OUR_TOKEN"\n')
    assert "s3cret" not in "".join(told)
    assert out == ""


def test_it_counts_the_tools_that_are_listed_and_none_of_its_own(surehand, run, tmp_path):
    (tmp_path / "much.py").write_text(MUCH)
    run("call", "much", "-t", "much.py", "--store", "calls.db")  # from now on there is an output to be read
    listed = run("tools", "-t", "much.py").lines
    command = [*surehand, "mcp", "--http", "--port", "0", "-t", "much.py", "--store", "calls.db"]
    process = subprocess.Popen(command, stderr=PIPE, stdout=PIPE, text=True, cwd=tmp_path)
    assert process.stderr is not None
    told = process.stderr.readline()
    process.kill()
    process.communicate()

    assert (len(listed), told.partition(" over ")[0]) == (1, "Serving 1 tool")


async def test_the_policy_of_the_configuration_applies(surehand, tmp_path):
    (tmp_path / "surehand.yaml").write_text("policy: [{tools: add, decision: deny, reason: never}]\nstore: calls.db\n")
    with http_process(surehand, "--config", str(tmp_path / "surehand.yaml")) as (site, _):
        denied = await site.ask(call_request("add", a=1, b=2))
        allowed = await site.ask(call_request("delete", name="x"))

    assert denied.json["result"]["isError"] is True
    assert "never" in denied.json["result"]["content"][0]["text"]
    assert allowed.json["result"]["content"][0]["text"] == "x is gone"


async def test_without_rules_it_asks_before_anything_but_reading(surehand):
    with http_process(surehand) as (site, _):
        answer = await site.ask(call_request("delete", name="x"))

    assert '"waiting_for":"approval"' in answer.json["result"]["content"][0]["text"]


FILES_ONLY = """
workspace: workspace
builtin: {files: true, shell: {network: false}}
policy:
  - {effects: [read, write], decision: allow}
  - {effects: [execute, network], decision: ask}
"""


async def test_the_sample_workspace_can_be_worked_on(surehand, tmp_path):
    shutil.copytree(EXAMPLES / "demo/workspace", tmp_path / "workspace")
    (tmp_path / "files.yaml").write_text(FILES_ONLY)
    with http_process(surehand, "--config", str(tmp_path / "files.yaml")) as (site, _):
        read = await site.ask(call_request("read", file_path="notes/plan.md"))
        edited = await site.ask(call_request("edit", file_path="notes/plan.md", old_string="teh", new_string="the"))
        asked = await site.ask(call_request("bash", command="python3 shop.py", description="Add up the orders"))
        outside = await site.ask(call_request("read", file_path="../files.yaml"))

    assert "Order more of it" in read.json["result"]["content"][0]["text"]
    assert edited.json["result"]["isError"] is False
    assert '"waiting_for":"approval"' in asked.json["result"]["content"][0]["text"]
    assert outside.json["result"]["isError"] is True
    assert "to the customers" in (tmp_path / "workspace/notes/plan.md").read_text()


SEVERAL = """
import asyncio
from surehand import tool

@tool(effects={"read"})
async def loop() -> str:
    '''The kind of event loop that this runs on.'''
    return type(asyncio.get_running_loop()).__module__
"""
SERVED = """
workspace: workspace
builtin:
  files: true
  shell: {network: false}
mcp_servers:
  time: {command: %s, args: [-m, mcp_server_time], effects: {"*": [read]}}
policy:
  - {effects: [read, write, execute, network], decision: allow}
"""


@needs("bubblewrap")
async def test_commands_files_and_other_servers_work_on_the_event_loop_that_it_serves_on(surehand, tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "served.yaml").write_text(SERVED % sys.executable)
    (tmp_path / "several.py").write_text(SEVERAL)
    convert = {"time": "12:00", "source_timezone": "UTC", "target_timezone": "Asia/Tokyo"}
    options = ["--config", str(tmp_path / "served.yaml"), "--tools", str(tmp_path / "several.py")]
    with http_process(surehand, *options) as (site, _):

        async def text(tool: str, **arguments: Any) -> str:
            answer = await site.ask(call_request(tool, **arguments))
            return str(answer.json["result"]["content"][0]["text"])

        kind = await text("loop")
        written = await text("write", file_path="a.txt", content="from a file")
        shown = await text("bash", command="cat a.txt; echo; sleep 0.1; echo done", description="Show a file")
        late = await text("bash", command="sleep 60", description="Sleep", timeout=200)
        times = await asyncio.gather(*(text("time__convert_time", **convert) for _ in range(5)))

    assert kind == ("uvloop" if find_spec("uvloop") else "asyncio.unix_events")
    assert "a.txt" in written
    assert "from a file" in shown
    assert "done" in shown
    assert "200" in late or "timed out" in late.lower()
    assert all("+9.0h" in each for each in times)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--port", "9000"], "--port can be used with --http only."),
        (
            ["--http", "--host", "0.0.0.0"],
            "0.0.0.0 can be reached from other machines, so clients have to show a token.",
        ),
        (["--http", "--host", "example.org"], "--token-env NAME"),
        (["--http", "--token-env", "NOT_SET"], "The variable NOT_SET that holds the token is not set, or empty."),
        (["--http", "--host", "::1", "--port", "70000"], "70000"),
        (["--http", "--port", "0", "--path", "x"], "path must start with a slash"),
        (["--http", "--host", "203.0.113.7", "--token-env", "HOME"], "is not an address of this machine"),
        (["--http", "--host", "no such host", "--token-env", "HOME"], "is not an address of this machine"),
        (["--allow-host", "a", "--port", "1"], "--port, --allow-host can be used with --http only."),
        (["--http", "--port", "0", "--allow-host", "https://a"], "hosts has 'https://a', which is malformed."),
        (["--http", "--port", "0", "--allow-origin", "a b"], "origins has 'a b', which is malformed."),
        (["--toolset", "no_such"], "There is no toolset 'no_such'"),
        (["--toolset", "no_such"], "or give a glob of tools' names, as in 'git__*'"),
        (
            ["--toolset", "no_such*"],
            "No tool matches 'no_such*'. Fix: the tools are add, state, wait, block, run, delete.",
        ),
    ],
)
def test_wrong_options_end_with_one_sentence(run, options, told):
    ended = run("mcp", "--tools", PROCESS_TOOLS, *options)

    assert ended.code == 2
    assert told in ended.err
    assert ended.out == ""
    assert "Traceback" not in ended.err


def test_a_port_in_use_is_reported(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run("mcp", "--tools", PROCESS_TOOLS, "--http", "--port", port)

    assert ended.code == 2
    assert f"Port {port} on 127.0.0.1 is in use. Choose another with --port" in ended.err


def test_without_tools_there_is_nothing_to_serve(run):
    ended = run("mcp")

    assert ended.code == 2
    assert "No tools are configured" in ended.err


def test_a_person_sees_what_the_command_does(terminal):
    screen = terminal("mcp", "--tools", PROCESS_TOOLS)
    screen.sees("A client starts it with this entry")
    screen.sees("Ctrl-D ends it")
    screen.types("\x04", enter=False)

    assert screen.ends() == 0


def test_a_person_sees_a_client_entry_with_absolute_paths(terminal, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    screen = terminal("mcp", "--tools", "mine.py:crash", "--store", "calls.db", "--toolset", "cr*", "--short-names")
    told = screen.sees(r"(?s)A client starts it with this entry: \{.*?\}\}\}")
    screen.types("\x04", enter=False)
    screen.ends()

    here = tmp_path.resolve()
    sources = ["-t", f"{here}/mine.py:crash", "--store", f"{here}/calls.db"]
    entry = json.loads(told.partition(": ")[2].replace("\n", ""))["mcpServers"]["surehand"]
    assert entry["args"] == ["mcp", *sources, "--toolset", "cr*", "--short-names"]


MINE = """
from surehand import tool

@tool(effects={"read"})
async def crash() -> str:
    '''Break.'''
    raise ValueError("in the middle\\nof it")

@tool(effects={"write"})
async def save() -> str:
    '''Save it.'''
    return "saved"
"""


def told_by(surehand, tmp_path, *requests: bytes, options: tuple[str, ...] = ()) -> list[str]:
    """What a server writes to stderr while it is sent these lines."""
    (tmp_path / "mine.py").write_text(MINE)
    ended = subprocess.run(
        [*surehand, "mcp", "--tools", str(tmp_path / "mine.py"), *options], input=b"".join(requests),
        capture_output=True, timeout=PROCESS_TIMEOUT_SECONDS, check=False,
    )  # fmt: skip
    return ended.stderr.decode().splitlines()


def test_with_log_info_each_served_call_is_a_line_on_stderr(surehand, tmp_path):
    told = told_by(surehand, tmp_path, encode_line(call(1, "crash", True)), options=("--log", "info"))

    assert len([line for line in told if line.startswith("warning: crash failed (crashed): ")]) == 1


def test_stderr_shows_how_to_answer_a_call_that_the_client_cannot(surehand, run, tmp_path):
    store = str(tmp_path / "calls.db")
    [told] = told_by(surehand, tmp_path, encode_line(call(1, "save", True)), options=("--store", store))

    before, _, command = told.partition(": ")
    program, *words = shlex.split(command)
    assert (before, Path(program).name, words[0]) == ("save waits for approval", "surehand", "approve")
    assert run(*words).lines[0]["data"] == "saved"


def test_without_a_store_a_warning_says_that_calls_cannot_be_answered(surehand, tmp_path):
    told = told_by(surehand, tmp_path, encode_line(call(1, "save", True)))

    assert told == [WARNED, "save waits for approval, which cannot be given without a store."]


def test_a_crash_is_one_line(surehand, tmp_path):
    told = told_by(surehand, tmp_path, encode_line(call(1, "crash", True)), options=("--toolset", "crash"))

    assert told[1:] == ["warning: crash crashed: ValueError: in the middle (--debug shows all of it)"]


async def test_only_tools_that_match_are_served(surehand):
    with http_process(surehand, "--toolset", "a*") as (site, _):
        known, other = await site.ask(call_request("add", a=1, b=2)), await site.ask(call_request("delete", name="x"))

    assert known.json["result"]["structuredContent"] == {"result": 3}
    assert "Unknown tool" in other.json["error"]["message"]


async def test_a_proxy_may_have_its_own_host_name(surehand):
    with http_process(surehand, "--allow-host", "Shop.example.org") as (site, _):
        asked = call_request("add", a=1, b=2)
        named, other = [
            await site.ask(re.sub(rb"Host: [^\r]+", b"Host: " + host, asked, count=1))
            for host in (b"shop.example.org", b"other.example.org")
        ]

    assert (named.status, other.status) == (200, 421)


async def test_web_pages_of_an_allowed_origin_may_connect(surehand):
    with http_process(surehand, "--allow-origin", "https://app.example.org") as (site, _):
        app, other = [
            await site.ask(call_request("add", ("Origin", f"https://{name}.example.org"), a=1, b=2))
            for name in ("app", "other")
        ]

    assert (app.status, other.status) == (200, 403)
    assert app.headers["access-control-allow-origin"] == "https://app.example.org"


def test_a_server_on_all_addresses_is_reached_by_the_name_of_the_machine():
    assert ServeAddress("0.0.0.0", 8765, "/mcp", None).client_url(8765) == f"http://{socket.gethostname()}:8765/mcp"
    assert ServeAddress("127.0.0.1", 8765, "/mcp", None).client_url(8765) == "http://127.0.0.1:8765/mcp"


def test_a_request_of_ours_is_well_formed():
    assert request(b"x").endswith(b"Content-Length: 1\r\n\r\nx")
