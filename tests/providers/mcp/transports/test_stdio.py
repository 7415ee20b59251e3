"""Servers as child processes: messages, malformed output, stderr, environment, and clean shutdown."""

import asyncio
import logging
import os
import signal
import sys
import textwrap
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from time import monotonic

import anyio
import psutil
import pytest
from mcp import Client, MCPError

from surehand import Runtime, mcp
from surehand.core.errors import DefinitionError, NotStarted
from surehand.providers.mcp.addresses.stdio import StdioAddress
from surehand.providers.mcp.connection_errors import failure_from_error, innermost_error
from surehand.providers.mcp.connection_owner import ConnectionOwner
from surehand.providers.mcp.transports import stdio as stdio_transport
from surehand.sandbox.sandbox import Sandbox, Unprotected
from tests.providers.mcp.peers import FRIENDLY, PLAIN
from tests.providers.mcp.steady_server import wait_until
from tests.requirements import needs
from tests.sandbox.remains import descriptors, gone, marker, processes_with

PYTHON = os.path.realpath(sys.executable)
real = pytest.mark.timeout(60)  # importing the MCP SDK takes seconds on a busy machine
PEERS = str(Path(PLAIN[-1]).parent)


def plain(*habits, **options):
    return StdioAddress(*PLAIN, *habits, **options)


@asynccontextmanager
async def connected(address, mode="legacy", ended=lambda reason: None):
    (target,) = address.create_transports(ConnectionOwner(), ended)
    async with Client(target, mode=mode) as client:
        yield client


async def called(client, name, **arguments):
    return (await client.call_tool(name, arguments)).content[0].text


@real
@pytest.mark.parametrize(
    ("mode", "protocol"), [("auto", "2026-07-28"), pytest.param("legacy", "2025-11-25", marks=pytest.mark.long)]
)
async def test_both_protocols_work(mode, protocol):
    async with connected(StdioAddress(*FRIENDLY), mode) as client:
        assert client.protocol_version == protocol
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}


async def test_concurrent_calls_each_get_their_own_result():
    async with connected(plain()) as client:
        answers = await asyncio.gather(*(called(client, "echo", text=f"{n} {'x' * n * 50}") for n in range(200)))

    assert answers == [f"{n} {'x' * n * 50}" for n in range(200)]


async def test_malformed_messages_are_dropped_counted_and_logged(caplog):
    address = plain("banner")
    (target,) = address.create_transports(ConnectionOwner(), print)

    async with Client(target, mode="legacy") as client:
        assert await called(client, "echo", text="hello") == "hello"

    assert target.malformed_count == 3
    assert "Welcome to the plain server!" in caplog.text
    assert "\\xff\\xfe not UTF-8" in caplog.text


@pytest.mark.parametrize("result", ["5", '{"a": "\\ud800"}'])
async def test_a_request_whose_response_is_malformed_fails(result):
    async with connected(plain()) as client:
        number = 2  # the first was `initialize`
        answer = f'{{"jsonrpc": "2.0", "id": {number}, "result": {result}}}\n'

        with pytest.raises(MCPError, match="not a JSON-RPC message") as caught:
            await called(client, "print", text=answer)

        assert (failure_from_error(caught.value).was_sent, failure_from_error(caught.value).is_connection_lost) == (
            True,
            False,
        )
        assert await called(client, "echo", text="still here") == "still here"


async def test_a_message_of_the_largest_size_is_read_and_a_larger_one_ends_the_connection():
    ended = []
    async with connected(plain(max_frame="64KiB"), ended=ended.append) as client:
        assert len(await called(client, "echo", text="x" * 65_000)) == 65_000

        with pytest.raises(MCPError, match="more than 65536 bytes") as caught:
            await called(client, "echo", text="x" * 66_000)

    trouble = failure_from_error(caught.value)
    assert (trouble.was_sent, trouble.is_connection_lost, trouble.message) == (True, True, ended[0])


async def test_an_endless_line_takes_no_more_memory_than_a_message():
    ended, process = [], psutil.Process()
    before = process.memory_info().rss

    with pytest.raises((MCPError, ExceptionGroup)) as caught:
        async with connected(plain("endless"), ended=ended.append):
            pass

    assert "more than 4194304 bytes" in failure_from_error(caught.value).message
    assert len(ended) == 1
    assert process.memory_info().rss - before < 2 * (4 << 20) + (8 << 20)


async def test_the_end_of_a_server_is_reported_with_exit_code_and_last_line(caplog):
    caplog.set_level(logging.INFO, "surehand.mcp")
    address, ended = plain(), []

    async with connected(address, ended=ended.append) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("exit", {"code": 3})
        with pytest.raises((MCPError, NotStarted)):
            await client.call_tool("echo", {"text": "anybody?"})

    reason = "The server ended by itself, with exit code 3. It last wrote: last words"
    trouble = failure_from_error(caught.value)
    assert ended == [reason]
    assert (trouble.was_sent, trouble.is_connection_lost, trouble.message) == (True, True, reason)
    assert address.exit_report() == "It ended with exit code 3.\nThe last lines of its stderr:\n  last words"
    assert ("surehand.mcp.plain_server", logging.INFO, "last words") in caplog.record_tuples


async def test_a_server_that_does_not_come_up_says_why():
    address, ended = plain("failing"), []

    with pytest.raises((MCPError, ExceptionGroup)) as caught:
        async with connected(address, ended=ended.append):
            pass

    assert "exit code 4. It last wrote: cannot find the database" in failure_from_error(caught.value).message
    assert len(ended) == 1
    assert "cannot find the database" in address.exit_report()


async def test_an_end_from_our_side_is_not_reported():
    ended = []
    async with connected(plain(), ended=ended.append):
        pass

    assert ended == []


@pytest.mark.parametrize("leave", ["normally", "scope", "cancel", "cancelled twice", "error"])
@pytest.mark.parametrize("habits", [(), ("deathless", "family", "flood"), ("family", "noisy")])
async def test_no_process_survives_however_the_connection_is_closed(leave, habits):
    mark, before, begun = marker(), descriptors(), asyncio.Event()
    address = plain(*habits, env={"MARK": mark})

    async def stay():
        async with connected(address):
            begun.set()
            if leave == "error":
                raise LookupError
            if leave != "normally":
                await asyncio.Event().wait()

    start, task = monotonic(), asyncio.create_task(scoped(stay, begun) if leave == "scope" else stay())
    await begun.wait()
    if leave.startswith("cancel"):
        task.cancel()
    if leave == "cancelled twice":
        await asyncio.sleep(0.05)
        task.cancel()
    await asyncio.wait({task})

    assert monotonic() - start < 20
    if leave == "error":
        assert isinstance(innermost_error(task.exception()), LookupError)
    assert await gone(mark, 20) == []
    assert descriptors() == before


async def scoped(stay, begun):
    """Leave by a cancel scope."""
    async with anyio.create_task_group() as group:
        group.start_soon(stay)
        await begun.wait()
        group.cancel_scope.cancel()


async def test_cancelling_a_write_to_a_server_that_never_reads_ends_at_once(tmp_path):
    mark = marker()
    address = plain("deaf", env={"MARK": mark})

    with anyio.move_on_after(0.3) as scope:
        async with connected(address):
            pass

    assert scope.cancelled_caught
    assert await gone(mark, 20) == []


async def test_a_server_that_exits_with_its_input_gets_no_signal(tmp_path, monkeypatch):
    monkeypatch.setattr(stdio_transport, "EXIT_TIMEOUT_SECONDS", 20.0)
    program = "import sys; sys.stdin.read(); open({!r}, 'w').write('tidy')".format(str(tmp_path / "left"))
    (target,) = StdioAddress(sys.executable, "-S", "-c", program).create_transports(ConnectionOwner(), print)

    async with target:
        pass

    assert (tmp_path / "left").read_text() == "tidy"


@real
@pytest.mark.parametrize("sandboxed", [False, pytest.param(True, marks=[needs("bubblewrap"), pytest.mark.long])])
async def test_all_processes_of_a_server_die_when_this_process_is_killed(tmp_path, sandboxed):
    mark = marker()
    script = tmp_path / "owner.py"
    script.write_text(
        textwrap.dedent(f"""
        import asyncio
        from surehand.providers.mcp.connection_owner import ConnectionOwner
        from surehand.providers.mcp.addresses.stdio import StdioAddress
        from surehand.sandbox.sandbox import Sandbox
        async def main():
            sandbox = Sandbox(read=({sys.base_prefix!r}, {PEERS!r})) if {sandboxed} else None
            command = [{PYTHON!r}, *{PLAIN[1:]!r}, "family", "stubborn"]
            address = StdioAddress(*command, env={{"MARK": {mark!r}}}, sandbox=sandbox)
            async with address.create_transports(ConnectionOwner(), print)[0]:
                while not address.exit_report():
                    await asyncio.sleep(0.01)
                print("up", flush=True)
                await asyncio.sleep(60)
        asyncio.run(main())
        """)
    )
    owner = await asyncio.create_subprocess_exec(sys.executable, str(script), stdout=asyncio.subprocess.PIPE)
    assert await owner.stdout.readline() == b"up\n"
    assert len(processes_with(mark)) >= 2

    os.kill(owner.pid, signal.SIGKILL)
    await owner.wait()
    owner._transport.close()

    assert await gone(mark, 20) == []


@pytest.mark.parametrize("which", [0, 1])
async def test_a_server_whose_supervisor_is_killed_restarts_and_leaves_nothing_behind(which):
    mark, before = marker(), set(psutil.Process().children())
    family = mcp.stdio(*PLAIN, "family", namespace="plain", manifest=False, env={"MARK": mark}, effects=["read"])
    async with Runtime(family) as runtime:
        server = psutil.Process(int((await runtime.call("plain__pid")).unwrap()))
        known = numbers_with(mark)
        (supervisor,) = set(psutil.Process().children()) - before
        [supervisor, *supervisor.children()][which].kill()
        await asyncio.to_thread(server.wait, 20)

        assert (await again(runtime, "plain__pid")).ok

        await wait_until(lambda: not known & numbers_with(mark))
    assert await gone(mark, 20) == []


def numbers_with(mark):
    return {int(each.split()[0]) for each in processes_with(mark)}


async def again(runtime, name):
    """Call until the server is there: right after its end it may not be known that it ended."""
    while not (outcome := await runtime.call(name)).ok:
        assert outcome.code == "unavailable"
        await asyncio.sleep(0.01)
    return outcome


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("no-such-server-anywhere", "is not found. Fix: install it"),
        ("./no/such", "is not found. Fix: install it"),
        (__file__, r"is not executable \(permission denied\). Fix: .*chmod"),
    ],
)
async def test_a_missing_command_is_named_with_the_fix(command, what):
    address = StdioAddress(command, "--port", "1", "--token", "abc")

    with pytest.raises(NotStarted, match=rf"--port 1 --token \*\*\* cannot be started.*{what}") as caught:
        async with connected(address):
            pass

    assert address.is_permanent_error(caught.value)
    assert not failure_from_error(caught.value).was_sent


async def test_a_missing_folder_is_named():
    with pytest.raises(NotStarted, match="there is no folder /no/such"):
        async with connected(plain(cwd="/no/such")):
            pass


async def test_a_server_inherits_only_the_listed_environment_variables(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setenv("TERM", "() { echo; }")

    async def env(who):
        return {"TOKEN": f"of {who.user}"}

    address = StdioAddress("/bin/sh", env=env)
    found = (await address.sandbox_for(ConnectionOwner("ada"))).environment

    assert found.keys() >= {"PATH", "HOME", "LANG", "TMPDIR"}
    assert (found["TOKEN"], found["XDG_DATA_HOME"]) == ("of ada", "/data")
    assert not found.keys() & {"AWS_SECRET_ACCESS_KEY", "TERM"}


async def test_environment_values_may_be_functions_and_must_be_strings():
    found = await StdioAddress("sh", env={"A": lambda who: f"{who.session}", "B": "b"}).sandbox_for(
        ConnectionOwner(session="s1")
    )
    assert (found.environment["A"], found.environment["B"]) == ("s1", "b")

    with pytest.raises(DefinitionError, match="value of 'A' is not a string"):
        await StdioAddress("sh", env={"A": 5}).sandbox_for(ConnectionOwner())


async def test_a_server_without_a_sandbox_has_no_resource_limits():
    surroundings = await StdioAddress("sh").sandbox_for(ConnectionOwner())

    assert surroundings.rlimits.keys() == {"CORE", "NPROC"}


def test_limits_can_be_omitted_only_without_a_sandbox():
    assert "CPU" not in Unprotected(cpu=inf).rlimits
    assert Unprotected(cpu=0.5).rlimits["CPU"] == 1
    with pytest.raises(DefinitionError, match="`cpu` must be a positive limit, got inf"):
        Sandbox(cpu=inf)
    with pytest.raises(DefinitionError, match="`processes` must be a positive limit, got inf"):
        Unprotected(processes=inf)


@needs("bubblewrap")
async def test_a_server_runs_in_a_sandbox(tmp_path):
    sandbox = Sandbox(read=[sys.base_prefix, PEERS], env={"A": "1"})
    address = StdioAddress(PYTHON, *PLAIN[1:], sandbox=sandbox, env={"B": "2"})

    async with connected(address) as client:
        assert int(await called(client, "pid")) < 10
        assert await called(client, "echo", text="inside") == "inside"


async def test_a_flood_on_stderr_is_limited_in_the_log_and_does_not_stop_the_server(caplog):
    caplog.set_level(logging.INFO, "surehand.mcp")
    address, began = plain("noisy"), monotonic()
    address.log_name = "loud"

    async with connected(address) as client:
        for n in range(50):
            assert await called(client, "echo", text=str(n)) == str(n)

    lines = [message for name, _, message in caplog.record_tuples if name == "surehand.mcp.loud"]
    assert 100 <= len(lines) <= 101 * (monotonic() - began + 2)  # a hundred in a second, and how many more there were
    assert lines[0] == "noise \\u001b[31mred"
    assert any("more lines" in line for line in lines)
    assert (address.exit_report()).count("noise") in (19, 20)  # the last may have been cut short


async def test_stderr_is_logged_line_by_line_and_escaped(caplog):
    caplog.set_level(logging.INFO, "surehand.mcp")
    async with connected(plain()) as client:
        await called(client, "say", text="one\n\x1b[2Jtwo\u202e\n" + "x" * 5000)
        while len(caplog.record_tuples) < 3:  # noqa: ASYNC110 - a log has no event to wait for
            await asyncio.sleep(0.01)

    assert [message for _, _, message in caplog.record_tuples][:2] == ["one", "\\u001b[2Jtwo\\u202e"]
    assert caplog.record_tuples[2][2] == "x" * 500 + "..."


async def test_starting_a_server_does_not_block_others(monkeypatch):
    monkeypatch.setattr(stdio_transport, "EXIT_TIMEOUT_SECONDS", 0.01)
    (target,) = plain("deaf").create_transports(
        ConnectionOwner(), print
    )  # a call that waited for it would wait for a minute
    last, longest = monotonic(), 0.0

    async def tick():
        nonlocal last, longest
        while True:
            await asyncio.sleep(0)
            longest, last = max(longest, monotonic() - last), monotonic()

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0.01)
    async with target:
        await asyncio.sleep(0.01)
        ticking.cancel()

    assert 0 < longest < 20


@pytest.mark.parametrize(
    ("words", "namespace"),
    [
        ("npx -y @modelcontextprotocol/server-github@1.2", "server-github"),
        ("npx --package @x/tools --yes tools-mcp", "tools-mcp"),
        ("uvx mcp-server-git", "mcp-server-git"),
        ("uvx mcp-server-time==1.2 --local-timezone UTC", "mcp-server-time"),
        ("uvx --from git+https://example.com/x.git my-server", "my-server"),
        ("uv --directory /srv/x run server.py", "server"),
        ("python -m my_pkg.server", "my_pkg-server"),
        ("python3.12 -u /srv/weather.py --fast", "weather"),
        ("node /srv/dist/index.js", "index"),
        ("docker run -i --rm -e TOKEN --name box ghcr.io/org/name:tag --flag", "name"),
        ("docker run -i localhost:5000/name@sha256:abcd", "name"),
        ("env A=b DEBUG=1 uvx some[extra]", "some"),
        ("/opt/x/bin/tool.py", "tool"),
        ("my__odd.server", "my_odd-server"),
        ("npx", "npx"),
        ("bash -c something", "bash"),
    ],
)
def test_the_namespace_is_the_name_of_the_program(words, namespace):
    assert StdioAddress(*words.split()).namespace == namespace


@pytest.mark.parametrize(
    ("words", "label"),
    [
        (["srv", "my file", "-v"], "srv 'my file' -v"),
        (["srv", "--token", "abc", "x"], "srv --token *** x"),
        (["srv", "--api-key=abc", "--password=", "p"], "srv '--api-key=***' '--password=***' p"),
        (["srv", "sk-proj-abcdefghij", "ghp_abcdefghijkl"], "srv *** ***"),
        (["docker", "run", "-e", "GH_TOKEN=abc", "i"], "docker run -e 'GH_TOKEN=***' i"),
        (["srv", "postgres://ada:pw@db/x"], "srv 'postgres://***@db/x'"),
        (["srv", "--header", "Authorization: Bearer abc"], "srv --header 'Authorization: ***'"),
        (["srv", "--url", "https://x.example/?api_key=abc&a=1"], "srv --url 'https://x.example/?api_key=***'"),
        (["srv", "--tokenizer-path", "x"], "srv --tokenizer-path ***"),
    ],
)
def test_the_label_is_the_command_with_masked_secrets(words, label):
    assert StdioAddress(*words).label == label


def test_the_identity_has_the_folder_but_no_environment_values():
    assert StdioAddress("srv", "--token", "abc", env={"K": "v"}).identity == "stdio:srv --token ***"
    assert StdioAddress("srv", cwd="/data/").identity == "stdio:srv:/data"


@pytest.mark.parametrize("words", [("",), ("a", 5), ("a", "b\0c")])
def test_a_command_must_consist_of_strings(words):
    with pytest.raises(DefinitionError):
        StdioAddress(*words)
