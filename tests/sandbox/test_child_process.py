"""Child processes are started, written to and stopped, and never leave a process or a descriptor behind."""

import asyncio
import os
import random
import resource
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic

import psutil
import pytest

from surehand import Unavailable
from surehand.sandbox import bubblewrap
from surehand.sandbox.child_process import ChildProcess
from surehand.sandbox.sandbox import UNPROTECTED, Sandbox
from tests.requirements import needs
from tests.sandbox.inside import run_in_sandbox
from tests.sandbox.remains import HOSTILE, descriptors, gone, marker, processes_with, wait_until_closed

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time

KINDS = [pytest.param(Sandbox(), id="sandbox", marks=needs("bubblewrap")), pytest.param(UNPROTECTED, id="unprotected")]
both = pytest.mark.parametrize("sandbox", KINDS)


async def start_child(place, command, sandbox, **options):
    return await ChildProcess.start(
        ["bash", "-c", "--", command], cwd=place.root, folders=place.workspace.roots, sandbox=sandbox, **options
    )


@both
@pytest.mark.parametrize(
    ("command", "code", "out", "err"),
    [
        ("echo out; echo err >&2", 0, "out\n", "err\n"),
        ("exit 7", 7, "", ""),
        ("kill -9 $$", 137, "", ""),
        ("kill -SEGV $$", 139, "", ""),
        ("exec 1>&- 2>&-; exit 3", 3, "", ""),
        ("cat", 0, "", ""),
        ("sleep 60 & echo left behind", 0, "left behind\n", ""),
        ("setsid sleep 60 & echo left behind", 0, "left behind\n", ""),
    ],
)
async def test_a_command_ends_with_its_code_and_its_output(place, sandbox, command, code, out, err):
    printed = await run_in_sandbox(place, command, sandbox=sandbox)

    assert (printed.code, printed.out, printed.err) == (code, out, err)


@both
async def test_a_command_reads_what_is_written_to_it(place, sandbox):
    async with await start_child(
        place, "while read -r line; do echo you said $line; done", sandbox, stdin=True
    ) as child:
        child.stdin.write(b"one\n")
        assert await child.stdout.readline() == b"you said one\n"
        child.stdin.write(b"two\n")
        assert await child.stdout.readline() == b"you said two\n"
        child.stdin.close_when_drained()
        assert await child.wait() == 0


@both
async def test_more_than_a_pipe_holds_goes_through(place, sandbox):
    sent = os.urandom(1 << 20)
    async with await start_child(place, "cat", sandbox, stdin=True) as child:
        child.stdin.write(sent)
        child.stdin.close_when_drained()
        received, _ = await asyncio.gather(child.stdout.read(), child.stdin.drain())

    assert received == sent


@both
async def test_writing_to_an_ended_command_raises(place, sandbox):
    async with await start_child(place, "exit", sandbox, stdin=True) as child:
        await child.wait()
        with pytest.raises(BrokenPipeError):
            child.stdin.write(b"x")


@both
async def test_unread_output_is_not_buffered_without_limit(place, sandbox):
    before = psutil.Process().memory_info().rss
    async with await start_child(place, "yes", sandbox) as child:
        await child.stdout.readexactly(100)
        await asyncio.sleep(0.2)

    assert psutil.Process().memory_info().rss - before < 8 << 20


@both
async def test_a_command_that_ends_when_asked_is_not_waited_for_longer(place, sandbox):
    child = await start_child(
        place, "trap 'echo bye > said; exit' TERM; echo ready; while :; do sleep 0.01; done", sandbox
    )
    await child.stdout.readline()

    began = monotonic()
    await child.stop(grace=25)

    assert monotonic() - began < 20
    assert (place.root / "said").read_text() == "bye\n"


@both
async def test_a_command_that_ignores_signals_is_killed_after_the_grace_period(place, sandbox):
    word, before = marker(), descriptors()
    child = await start_child(place, HOSTILE.format(word=word), sandbox)
    await child.stdout.readline()
    assert processes_with(word)

    began = monotonic()
    await child.stop(grace=0.3)

    assert 0.3 <= monotonic() - began < 8
    assert processes_with(word) == []
    assert await wait_until_closed(before, 0) == []


@both
async def test_a_suspended_command_can_be_ended(place, sandbox):
    word = marker()
    child = await start_child(place, f": {word}; echo ready; kill -STOP $$", sandbox)
    await child.stdout.readline()

    await child.stop(grace=0.05)

    assert processes_with(word) == []


@needs("python in /usr")
@both
async def test_a_process_that_forks_and_exits_repeatedly_is_killed(place, sandbox):
    # Should nothing catch it, it ends after fifteen seconds.
    loop = "while time.time() < end: os.fork() and os._exit(0)"
    (place.root / "hop.py").write_text(f"import os, time; end = time.time() + 15; print(1, flush=True)\n{loop}")
    word = marker()
    child = await start_child(place, f"for i in 1 2; do setsid python3 -S hop.py {word} & done; sleep 60", sandbox)
    for _ in range(2):
        await child.stdout.readline()

    began = monotonic()
    await child.stop(0)

    assert monotonic() - began < 8
    assert processes_with(word) == []


@both
async def test_stopping_twice_is_harmless(place, sandbox):
    child = await start_child(place, "sleep 60", sandbox)

    await asyncio.gather(child.stop(0), child.stop(0))
    await child.stop()

    assert await child.wait() in (137, 143)


@both
async def test_a_caller_cancelled_while_stopping_leaves_no_process(place, sandbox):
    word, before = marker(), descriptors()
    child = await start_child(place, HOSTILE.format(word=word), sandbox)
    await child.stdout.readline()

    stopping = asyncio.create_task(child.stop(grace=30))
    await asyncio.sleep(0.05)
    stopping.cancel()
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping

    assert processes_with(word) == []
    assert await wait_until_closed(before, 0) == []


@both
async def test_a_caller_cancelled_at_any_moment_leaves_no_process(place, sandbox):
    word, before = marker(), descriptors()

    async def run_to_end():
        async with await start_child(place, HOSTILE.format(word=word), sandbox) as child:
            await child.stdout.readline()
            await child.wait()

    for step in range(20):
        life = asyncio.create_task(run_to_end())
        for _ in range(min(step, 8)):
            await asyncio.sleep(0)
        await asyncio.sleep(max(step - 8, 0) / 400)
        life.cancel()
        with suppress(asyncio.CancelledError):
            await life
        assert len(os.listdir("/proc/self/fd")) <= len(before) + 1, f"cancelled at step {step}"

    assert processes_with(word) == []
    assert await wait_until_closed(before, 0) == []


@both
async def test_many_concurrent_commands_do_not_interfere(place, sandbox):
    async def one(number):
        return (await run_in_sandbox(place, f"echo {number}; exit {number}", sandbox=sandbox)).code

    assert await asyncio.gather(*map(one, range(12))) == list(range(12))


@both
def test_an_event_loop_in_another_thread_works(place, sandbox):
    results = []

    def work():
        results.append(asyncio.run(run_in_sandbox(place, "echo fine", sandbox=sandbox)).out)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert results == ["fine\n"]


@both
async def test_a_missing_program_is_reported(place, sandbox):
    child = await ChildProcess.start(
        ["no-such-program"], cwd=place.root, folders=place.workspace.roots, sandbox=sandbox
    )
    async with child:
        assert b"no-such-program" in await child.stderr.read()
        assert await child.wait() in (126, 127)


@both
async def test_running_out_of_file_descriptors_is_reported(place, sandbox):
    async with await start_child(place, "true", sandbox) as child:
        await child.wait()
    before, (soft, hard) = descriptors(), resource.getrlimit(resource.RLIMIT_NOFILE)
    answers = []
    for room in range(2, 24, 3):
        taken = [os.open("/dev/null", os.O_RDONLY) for _ in range(room)]
        most = max(taken) + 1
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        try:
            async with await start_child(place, "true", sandbox) as child:
                answers.append(await child.wait())
        except Unavailable as error:
            answers.append(str(error))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert answers[0] == "The command cannot be started: Too many open files."
    assert answers[-1] == 0
    if sys.version_info >= (3, 11, 5):  # before that, `Popen` itself lost some
        assert await wait_until_closed(before, 0) == []


def victim(place, word, kind):
    """Another process that starts three commands on request."""
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-m", "tests.sandbox.parent", str(place.root), word, kind]
    process = subprocess.Popen(arguments, env=surroundings, stdin=-1, stdout=-1, cwd=Path(__file__).parents[2])
    assert process.stdout.readline() == b"waiting\n"
    process.stdin.write(b"\n")
    process.stdin.flush()
    return process


@needs("bubblewrap")
@pytest.mark.parametrize("kind", ["sandbox", "unprotected"])
async def test_commands_die_with_a_parent_that_is_killed(place, kind):
    word = marker()
    with victim(place, word, kind) as process:
        assert process.stdout.readline() == b"started\n"
        assert processes_with(word)
        process.kill()

    assert await gone(word) == []


@needs("bubblewrap")
@pytest.mark.parametrize("kind", ["sandbox", "unprotected"])
async def test_a_parent_killed_while_starting_commands_leaves_no_process(place, kind):
    word, moments = marker(), random.Random(20)
    for _ in range(3):
        with victim(place, word, kind) as process:
            await asyncio.sleep(moments.uniform(0, 0.05))
            process.kill()

    assert await gone(word) == []


@pytest.mark.parametrize("which", [0, 1])
async def test_killing_either_supervisor_leaves_no_process(place, which):
    word = marker()
    async with await start_child(place, HOSTILE.format(word=word), UNPROTECTED) as child:
        await child.stdout.readline()
        first = psutil.Process(child._outer_process.pid)

        [first, *first.children()][which].kill()

        assert await child.wait() == 137
        assert await gone(word) == []


@pytest.mark.parametrize("which", [0, 1])
async def test_suspending_either_supervisor_leaves_no_process(place, which):
    word = marker()
    child = await start_child(place, HOSTILE.format(word=word), UNPROTECTED)
    await child.stdout.readline()
    first = psutil.Process(child._outer_process.pid)

    [first, *first.children()][which].suspend()
    await child.stop(grace=0)

    assert await gone(word) == []


async def test_the_end_of_a_command_is_noticed_even_if_sigchld_is_ignored(place):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        async with asyncio.timeout(10), await start_child(place, "exit 0", UNPROTECTED) as child:
            assert await child.wait() == 0
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.fixture
def fresh_check():
    def forget():
        for known in (bubblewrap.check_bubblewrap, bubblewrap.find_bubblewrap, bubblewrap._help_text):
            known.cache_clear()

    forget()
    yield
    forget()


async def test_without_bubblewrap_nothing_is_run(place, fresh_check, monkeypatch):
    monkeypatch.setenv("PATH", str(place.outside))

    with pytest.raises(Unavailable, match="apt install bubblewrap"):
        await start_child(place, "touch ran", Sandbox())
    assert not (place.root / "ran").exists()


KNOWS = "echo --size --perms --disable-userns --die-with-parent --ro-bind-fd"


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("exit 1", "does not know --size"),
        (
            f"{KNOWS}; echo bwrap: no permission >&2; exit 1",
            "no permission",
        ),
        (f"{KNOWS}; kill -9 $$", "cannot start"),
    ],
)
async def test_a_bubblewrap_that_does_not_work_is_not_used(place, fresh_check, monkeypatch, program, told):
    (place.outside / "bwrap").write_text(f"#!/bin/sh\n{program}\n")
    (place.outside / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(place.outside))

    with pytest.raises(Unavailable, match=told):
        await start_child(place, "touch ran", Sandbox())
    assert not (place.root / "ran").exists()
