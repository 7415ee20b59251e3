"""The reference servers of the protocol, in Node and Python, in both protocols."""

import asyncio
import os
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from fcntl import F_GETFL, fcntl, ioctl
from pathlib import Path
from termios import FIONREAD

import psutil
import pytest

from surehand import Done, Failed, Outcome, Pending, Runtime, mcp
from surehand.core.events import CallEnded, CallProgress, CatalogueChanged
from tests import node_packages
from tests.http.server import port_of_nobody
from tests.providers.mcp.reference_servers import BIN_FOLDER, NODE_SERVERS, PYTHON_SERVERS, FileServer, ReferenceServer
from tests.providers.mcp.steady_server import wait_until
from tests.requirements import needs

pytestmark = [pytest.mark.timeout(60), pytest.mark.long]  # a server may take seconds to start on a busy machine

READS = {"*": ["read"]}
"""Said of a server's tools by those who know it: such a call may be made again where one was lost."""
ERAS = ["2026-07-28", "legacy"]


@asynccontextmanager
async def running(server: mcp.Server) -> AsyncIterator[Runtime]:
    """A runtime with one server, of which no process is left."""
    before = set(children())
    async with Runtime(server) as runtime:
        yield runtime
    assert set(children()) <= before


def children() -> list[psutil.Process]:
    """What was started under these tests; others may have processes of their own."""
    known = {child for each in OTHERS for child in (each, *_descendants(each))}
    return [child for child in _descendants(psutil.Process()) if child not in known]


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [child for child in process.children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]
    except psutil.NoSuchProcess:
        return []


OTHERS: set[psutil.Process] = set()


@pytest.fixture(autouse=True)
def _others() -> None:
    OTHERS.clear()
    OTHERS.update(_descendants(psutil.Process()))


def server_process() -> psutil.Process:
    """The one that runs; two supervisors of ours, which end it with us, stand between."""
    (found,) = [child for child in children() if [each.pid for each in child.parents()][2:3] == [os.getpid()]]
    return found


def names(runtime: Runtime) -> set[str]:
    return {listing.name for listing in runtime.catalogue}


async def until(runtime: Runtime, name: str) -> None:
    """Wait until there is a tool of that name."""
    changed = asyncio.Event()
    runtime.listen(lambda event: changed.set() if isinstance(event, CatalogueChanged) else None)
    async with asyncio.timeout(20):
        while name not in runtime.catalogue:
            await changed.wait()
            changed.clear()


async def reached(runtime: Runtime, name: str, arguments: dict[str, str]) -> Outcome:
    """Call until the server is there: right after its end it may not be known that it ended."""
    async with asyncio.timeout(20):
        while True:
            outcome = await runtime.call(name, arguments)
            if not (isinstance(outcome, Failed) and outcome.code == "unavailable"):
                return outcome
            await asyncio.sleep(0.1)


def end(process: psutil.Process) -> None:
    process.kill()
    psutil.wait_procs([process], timeout=10)


@contextmanager
def everything_at(transport: str, port: int = 0) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The server `everything` behind a port of this machine."""
    process = subprocess.Popen(
        [*node_packages.server_command("everything"), transport],
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process, listening(process.pid)
    finally:
        process.kill()
        process.wait()


def listening(pid: int) -> int:
    """The port that a process has opened, as soon as it has."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        for connection in psutil.Process(pid).net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                return int(connection.laddr.port)
        time.sleep(0.02)
    raise TimeoutError(f"process {pid} opens no port")


def everything(**options) -> mcp.Server:
    return mcp.stdio(*node_packages.server_command("everything"), "stdio", namespace="every", manifest=False, **options)


# Each of them: listed, called, cancelled, killed and back again


def unread_by(process: psutil.Process) -> int:
    """Bytes that we have written to a process and that it has not read."""
    theirs = {os.readlink(each) for each in Path(f"/proc/{process.pid}/fd").iterdir()}
    ours = [int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
    shared = [each for each in ours if os.readlink(f"/proc/self/fd/{each}") in theirs]
    to_it = [each for each in shared if fcntl(each, F_GETFL) & os.O_ACCMODE == os.O_WRONLY]
    return sum(int.from_bytes(ioctl(each, FIONREAD, bytes(4)), sys.byteorder) for each in to_it if is_pipe(each))


def stands_still(process: psutil.Process) -> bool:
    """Whether all threads of a process have heard that it is to stop."""
    states = [each.read_text() for each in Path(f"/proc/{process.pid}/task").glob("*/stat")]
    return all(state.rpartition(")")[2].split()[0] == "T" for state in states)


def is_pipe(descriptor: int) -> bool:
    return stat.S_ISFIFO(os.fstat(descriptor).st_mode)


@asynccontextmanager
async def asked_in_vain(runtime: Runtime, server: ReferenceServer) -> AsyncIterator[asyncio.Task[Outcome]]:
    """A call that has surely been sent, and that is surely not answered: the server stands still."""
    process = server_process()
    process.suspend()
    await wait_until(lambda: stands_still(process))
    call = asyncio.create_task(runtime.call(f"real__{server.call}", server.arguments, call_id="in vain"))
    try:
        await wait_until(lambda: unread_by(process) > 0)
        yield call
    finally:
        with suppress(psutil.NoSuchProcess):
            process.resume()
        await asyncio.wait({call})


@pytest.fixture(params=[*(pytest.param(name, marks=needs("node servers")) for name in NODE_SERVERS), *PYTHON_SERVERS])
def reference(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ReferenceServer]:
    (tmp_path / "page.html").write_text("<html><body><article><h1>Hello</h1><p>from a page</p></article></body></html>")
    with FileServer(tmp_path) as web:
        yield {**NODE_SERVERS, **PYTHON_SERVERS}[request.param](tmp_path, web.url)


async def test_a_reference_server_works_before_and_after_a_cancelled_call(
    reference: ReferenceServer,
) -> None:
    async with running(reference.provider()) as runtime:
        server = server_process()
        assert {f"real__{name}" for name in reference.tools.split()} <= names(runtime)
        assert reference.says in (await runtime.call(f"real__{reference.call}", reference.arguments)).text

        async with asked_in_vain(runtime, reference) as call:
            await runtime.cancel("in vain")
            assert (await call).code == "cancelled"

        assert reference.says in (await runtime.call(f"real__{reference.call}", reference.arguments)).text
        assert server_process() == server


async def test_a_reference_server_killed_during_a_call_is_restarted_for_the_next(
    reference: ReferenceServer,
) -> None:
    async with running(reference.provider()) as runtime:
        first = server_process()
        async with asked_in_vain(runtime, reference) as call:
            end(first)
            # The tools that these servers mark as read-only may simply be called again.
            is_repeatable = runtime.catalogue.find(f"real__{reference.call}").tool.repeatable
            assert (await call).code == ("unavailable" if is_repeatable else "unknown_effect")

        assert reference.says in (await runtime.call(f"real__{reference.call}", reference.arguments)).text
        assert server_process() != first


# everything, over a pipe


@needs("node servers")
async def test_server_everything_is_listed_and_called():
    async with running(everything()) as runtime:
        assert {"every__echo", "every__get-sum", "every__get-tiny-image"} <= names(runtime)
        assert "Everything" in runtime.instructions()
        assert (await runtime.call("every__echo", {"message": "hello"})).text == "Echo: hello"
        assert "5" in (await runtime.call("every__get-sum", {"a": 2, "b": 3})).text

        weather = await runtime.call("every__get-structured-content", {"location": "Chicago"})
        assert weather.ok
        assert set(weather.data) == {"temperature", "conditions", "humidity"}

        picture = await runtime.call("every__get-tiny-image", {})
        assert "image" in {block.type for block in picture.content}

        wrong = await runtime.call("every__get-sum", {"a": "x", "b": 3})
        assert (wrong.code, wrong.executed) == ("invalid_arguments", False)


@needs("node servers")
async def test_server_everything_reports_progress():
    async with running(everything()) as runtime:
        events = [
            e async for e in runtime.stream("every__trigger-long-running-operation", {"duration": 0.2, "steps": 4})
        ]

    fractions = [event.fraction for event in events if isinstance(event, CallProgress)]
    assert fractions == [0.25, 0.5, 0.75, 1.0]
    assert isinstance(events[-1], CallEnded)
    assert events[-1].outcome.ok


@needs("node servers")
async def test_a_long_call_is_cancelled_and_the_server_keeps_working():
    async with running(everything()) as runtime:
        server = server_process()
        begun = asyncio.Event()
        runtime.listen(lambda event: begun.set() if isinstance(event, CallProgress) else None)
        arguments = {"duration": 600, "steps": 60_000}
        call = asyncio.create_task(runtime.call("every__trigger-long-running-operation", arguments, call_id="long"))
        await begun.wait()

        await runtime.cancel("long")

        assert (await call).code == "cancelled"
        assert (await runtime.call("every__echo", {"message": "still here"})).text == "Echo: still here"
        assert server_process() == server


@needs("node servers")
async def test_a_killed_server_is_restarted_for_the_next_call():
    async with running(everything()) as runtime:
        first = server_process()
        begun = asyncio.Event()
        runtime.listen(lambda event: begun.set() if isinstance(event, CallProgress) else None)
        call = asyncio.create_task(
            runtime.call("every__trigger-long-running-operation", {"duration": 600, "steps": 60_000})
        )
        await begun.wait()
        end(first)

        lost = await call
        assert isinstance(lost, Failed)
        assert lost.executed

        assert (await runtime.call("every__echo", {"message": "again"})).text == "Echo: again"
        assert server_process() != first


@needs("node servers")
async def test_server_everything_asks_a_person():
    async with running(everything()) as runtime:
        await until(runtime, "every__trigger-elicitation-request")  # offered to those who can be asked

        asked = await runtime.call("every__trigger-elicitation-request", {})
        assert isinstance(asked, Pending)
        assert asked.waiting_for == "input"
        assert "name" in asked.request["schema"]["properties"]

        answered = await runtime.settle(asked.call_id, {"name": "Ada Lovelace", "check": True})
        assert isinstance(answered, Done)
        assert "Ada Lovelace" in answered.text


# everything, behind a port


@needs("node servers")
@pytest.mark.parametrize(("transport", "path"), [("streamableHttp", "mcp"), ("sse", "sse")])
async def test_server_everything_is_reached_over_http_and_again_after_a_restart(transport, path):
    # `http` detects a server that supports only SSE.
    with port_of_nobody() as port, everything_at(transport, port) as (process, _):
        server = mcp.http(f"http://127.0.0.1:{port}/{path}", namespace="every", manifest=False, effects=READS)
        async with Runtime(server) as runtime:
            assert (await runtime.call("every__get-sum", {"a": 2, "b": 3})).ok
            arguments = {"duration": 0.1, "steps": 2}
            events = [e async for e in runtime.stream("every__trigger-long-running-operation", arguments)]
            assert [e.fraction for e in events if isinstance(e, CallProgress)] == [0.5, 1.0]

            process.kill()
            process.wait()
            gone = await runtime.call("every__echo", {"message": "?"})
            assert gone.code == "unavailable"

            with everything_at(transport, port):
                assert (await reached(runtime, "every__echo", {"message": "back"})).text == "Echo: back"


@needs("node servers")
@pytest.mark.parametrize("transport", ["streamableHttp", "sse"])
async def test_a_long_call_over_http_is_cancelled_and_the_server_keeps_working(transport):
    with everything_at(transport) as (_, port):
        reach = mcp.http if transport == "streamableHttp" else mcp.sse
        path = "mcp" if transport == "streamableHttp" else "sse"
        async with Runtime(reach(f"http://127.0.0.1:{port}/{path}", namespace="every", manifest=False)) as runtime:
            begun = asyncio.Event()
            runtime.listen(lambda event: begun.set() if isinstance(event, CallProgress) else None)
            arguments = {"duration": 600, "steps": 60_000}
            call = asyncio.create_task(runtime.call("every__trigger-long-running-operation", arguments, call_id="long"))
            await begun.wait()

            await runtime.cancel("long")

            assert (await call).code == "cancelled"
            assert (await runtime.call("every__echo", {"message": "on"})).text == "Echo: on"


# Others in Node


@needs("node servers")
async def test_server_filesystem_reads_only_its_folder(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside.txt"
    inside.mkdir()
    (inside / "a.txt").write_text("from a file")
    outside.write_text("secret")
    async with running(
        mcp.stdio(*node_packages.server_command("filesystem"), str(inside), namespace="fs", manifest=False)
    ) as runtime:
        read = await runtime.call("fs__read_text_file", {"path": str(inside / "a.txt")})
        refused = await runtime.call("fs__read_text_file", {"path": str(outside)})
        asked = await runtime.call("fs__write_file", {"path": str(inside / "b.txt"), "content": "written"})
        assert not (inside / "b.txt").exists()
        wrote = await runtime.approve(asked.call_id)

    assert "from a file" in read.text
    assert (refused.code, "secret" in refused.text) == ("failed", False)
    assert asked.waiting_for == "approval"  # by its own word it destroys
    assert wrote.ok
    assert (inside / "b.txt").read_text() == "written"


@needs("node servers")
async def test_server_memory_keeps_its_data_when_it_is_killed(tmp_path):
    server = mcp.stdio(
        *node_packages.server_command("memory"),
        env={"MEMORY_FILE_PATH": str(tmp_path / "graph.jsonl")},
        namespace="memory",
        manifest=False,
        effects={"read_*": ["read"]},
    )
    async with running(server) as runtime:
        entity = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
        assert (await runtime.call("memory__create_entities", {"entities": [entity]})).ok
        end(server_process())

        graph = await reached(runtime, "memory__read_graph", {})

    assert "writes programs" in graph.text


# In Python, of both eras


@pytest.mark.parametrize("protocol", ERAS)
async def test_server_time_works_and_is_restarted_when_it_is_killed(protocol):
    command = (str(BIN_FOLDER / "mcp-server-time"), "--local-timezone", "UTC")
    server = mcp.stdio(*command, namespace="time", manifest=False, protocol=protocol, effects=READS)
    async with running(server) as runtime:
        assert names(runtime) == {"time__get_current_time", "time__convert_time"}
        assert "UTC" in (await runtime.call("time__get_current_time", {"timezone": "UTC"})).text

        wrong = await runtime.call("time__get_current_time", {"timezone": "Nowhere/Else"})
        assert wrong.code == "failed"
        assert "Nowhere/Else" in wrong.text

        end(server_process())
        assert "UTC" in (await reached(runtime, "time__get_current_time", {"timezone": "UTC"})).text


async def test_server_git_is_listed_from_the_cache_and_reads_a_repository(tmp_path):
    repository, manifests = tmp_path / "repository", tmp_path / "manifests"
    repository.mkdir()
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    for command in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "The first commit"]):
        subprocess.run(["git", *command], cwd=repository, check=True)

    def git() -> mcp.Server:
        command = (str(BIN_FOLDER / "mcp-server-git"), "--repository", str(repository))
        return mcp.stdio(*command, namespace="git", manifest=manifests)

    async with running(git()) as runtime:
        log = await runtime.call("git__git_log", {"repo_path": str(repository)})
        listed = names(runtime)

    async with running(git()) as runtime:
        assert names(runtime) == listed
        assert children() == []

    assert "The first commit" in log.text


async def test_server_fetch_reads_a_page_while_another_call_is_cancelled(tmp_path):
    (tmp_path / "page.html").write_text("<html><body><article><h1>Hello</h1><p>from a page</p></article></body></html>")
    command = (str(BIN_FOLDER / "mcp-server-fetch"), "--ignore-robots-txt", "--allow-private-ips")
    alone = {"PATH": str(tmp_path)}  # where it finds npm, it installs packages while it is asked
    with FileServer(tmp_path) as web:
        async with running(mcp.stdio(*command, env=alone, namespace="fetch", manifest=False)) as runtime:
            slow = asyncio.create_task(runtime.call("fetch__fetch", {"url": f"{web.url}/slow"}, call_id="slow"))
            await asyncio.to_thread(web.asked.wait, 20)

            await runtime.cancel("slow")
            page = await runtime.call("fetch__fetch", {"url": f"{web.url}/page.html"})

            assert (await slow).code == "cancelled"
            assert "from a page" in page.text
