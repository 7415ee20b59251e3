"""`bash` in the background: its output, its end, and no process left behind."""

import asyncio
import json
import re
from time import monotonic

import psutil
import pytest

from surehand import Runtime
from surehand.builtin.shell.tools import shell
from surehand.sandbox.sandbox import UNPROTECTED
from tests.requirements import needs
from tests.sandbox.remains import HOSTILE, descriptors, gone, marker, processes_with

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time

KINDS = [pytest.param(None, id="sandbox", marks=needs("bubblewrap")), pytest.param(UNPROTECTED, id="unprotected")]


@pytest.fixture(params=KINDS)
def tools(request, tmp_path):
    return lambda **options: shell(tmp_path, sandbox=request.param, **options)


async def start_in_background(runtime, command) -> str:
    outcome = await runtime.call("bash", {"command": command, "background": True})
    assert outcome.data["state"].startswith("running"), outcome
    return outcome.data["id"]


async def test_a_background_command_returns_at_once(tools):
    async with Runtime(*tools()) as runtime:
        outcome = await runtime.call("bash", {"command": "sleep 60", "background": True})

        assert outcome.text == f"Started as {outcome.data['id']}. Look at it with bash_output, end it with bash_stop."
        looked = await runtime.call("bash_output", {"id": outcome.data["id"]})
        assert looked.data["running"]
        assert re.match(rf"{outcome.data['id']} running for \d+ s\n\(no new output\)", looked.text)


async def test_each_bash_output_returns_new_output(tools, tmp_path):
    async with Runtime(*tools()) as runtime:
        id = await start_in_background(runtime, "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exit 3")
        first = ""
        while not first:
            first = (await runtime.call("bash_output", {"id": id})).data["output"]
        (tmp_path / "go").touch()
        second = await runtime.call("bash_output", {"id": id, "wait": 20_000})
        third = await runtime.call("bash_output", {"id": id})

    assert (first, second.data["output"], third.data["output"]) == ("one\n", "two\n", "")
    assert (second.data["running"], second.data["exitCode"]) == (False, 3)
    assert "ended with exit code 3" in second.text


async def test_a_command_is_stopped_with_all_that_it_started(tools):
    word = marker()
    async with Runtime(*tools(grace=0.05)) as runtime:
        id = await start_in_background(runtime, HOSTILE.format(word=word))
        while not (await runtime.call("bash_output", {"id": id, "wait": 10})).data["output"]:
            pass

        stopped = await runtime.call("bash_stop", {"id": id})

        assert (stopped.data["state"], stopped.data["running"]) == ("stopped", False)
        assert processes_with(word) == []
        assert (await runtime.call("bash_stop", {"id": id})).data["state"] == "stopped"


async def test_bash_stop_returns_the_last_output(tools, tmp_path):
    async with Runtime(*tools(grace=20)) as runtime:
        id = await start_in_background(runtime, "trap 'echo bye; exit' TERM; touch began; while :; do sleep 0.01; done")
        while not (tmp_path / "began").exists():  # noqa: ASYNC110 - it comes from another process
            await asyncio.sleep(0.01)

        assert "bye\n" in (await runtime.call("bash_stop", {"id": id})).data["output"]


async def test_a_command_of_another_owner_is_not_found(tools):
    async with Runtime(*tools()) as runtime:
        mine = runtime.scope(user="ada", session="s1")
        id = await start_in_background(mine, "sleep 60")

        for stranger in (runtime, runtime.scope(user="bob", session="s1"), runtime.scope(user="ada", session="s2")):
            for tool in ("bash_output", "bash_stop"):
                theirs = await stranger.call(tool, {"id": id})
                unknown = await stranger.call(tool, {"id": "bg_000000000000"})
                assert theirs.code == unknown.code == "not_found"
                assert theirs.message.replace(id, "") == unknown.message.replace("bg_000000000000", "")
        assert (await mine.call("bash_output", {"id": id})).data["running"]


async def test_the_number_of_running_commands_is_limited(tools):
    async with Runtime(*tools(background=2)) as runtime:
        ids = [await start_in_background(runtime, "sleep 60") for _ in range(2)]

        refused = await runtime.call("bash", {"command": "touch ran", "background": True})
        assert refused.code == "limit_exceeded"
        assert all(id in refused.message for id in ids)
        await start_in_background(runtime.scope(user="somebody else"), "sleep 60")
        await runtime.call("bash_stop", {"id": ids[0]})
        await start_in_background(runtime, "sleep 60")


async def test_the_limit_holds_for_concurrent_starts(tools):
    async with Runtime(*tools(background=2)) as runtime:
        call = {"command": "sleep 60", "background": True}

        outcomes = await asyncio.gather(*(runtime.call("bash", call) for _ in range(6)))

        assert sum(outcome.ok for outcome in outcomes) == 2


async def test_a_background_command_times_out(tools):
    word = marker()
    async with Runtime(*tools(life=0.2, grace=0.05)) as runtime:
        id = await start_in_background(runtime, HOSTILE.format(word=word))

        ended = await runtime.call("bash_output", {"id": id, "wait": 20_000})

        assert "the longest that a command may run" in ended.data["state"]
        assert processes_with(word) == []


async def test_only_the_newest_output_is_kept(tools):
    async with Runtime(*tools(max_unread="10kB")) as runtime:
        id = await start_in_background(runtime, "seq 1 100000")

        ended = await runtime.call("bash_output", {"id": id, "wait": 20_000})

    assert ended.data["output"].startswith("[... 578,895 earlier bytes were not kept ...]\n")
    assert ended.data["output"].endswith("99999\n100000\n")
    assert ended.metadata["truncated"]


async def test_output_beyond_the_limit_is_kept_under_a_handle(tools):
    async with Runtime(*tools()) as runtime:
        id = await start_in_background(runtime, "seq 1 20000")

        ended = await runtime.call("bash_output", {"id": id, "wait": 20_000})
        summary = json.loads(ended.text.partition("\n")[0])["tool_output"]
        middle = await runtime.call("tool_output", {"handle": summary["handle"], "lines": "10001"})

    assert ended.text.endswith("\n19999\n20000\n")
    assert middle.text == "10001\t10000"  # below the line about the state of the command
    assert ended.data["output"] == "".join(f"{number}\n" for number in range(1, 20001))


async def test_unread_output_does_not_slow_down_other_calls(tools):
    async with Runtime(*tools(max_unread="100kB")) as runtime:
        await start_in_background(runtime, "yes")
        before, began = psutil.Process().cpu_times(), monotonic()
        await asyncio.sleep(0.5)
        after, took = psutil.Process().cpu_times(), monotonic() - began

    assert after.user + after.system - before.user - before.system < took / 2


async def test_all_commands_end_with_the_runtime(tools):
    word = marker()
    async with Runtime(*tools(grace=0.05)) as runtime:
        await runtime.call("bash", {"command": "true"})
        before = descriptors()
        for _ in range(4):
            await start_in_background(runtime, HOSTILE.format(word=word))

    assert processes_with(word) == []
    assert len(descriptors()) <= len(before)


async def test_two_runtimes_with_the_same_tools_keep_apart(tools):
    shared = tools()
    async with Runtime(*shared) as one, Runtime(*shared) as other:
        id = await start_in_background(one, "sleep 60")

        assert (await other.call("bash_output", {"id": id})).code == "not_found"


async def test_background_commands_need_a_runtime(tools):
    command, output, _ = tools()

    assert (await command.run({"command": "sleep 60", "background": True})).code == "unavailable"
    assert (await output.run({"id": "bg_1"})).code == "unavailable"


async def test_a_start_that_is_cancelled_leaves_nothing(tools):
    word = marker()
    async with Runtime(*tools(background=20)) as runtime:
        for step in range(12):
            call = asyncio.create_task(runtime.call("bash", {"command": f": {word}; sleep 60", "background": True}))
            await asyncio.sleep(step / 1000)
            if not call.done():
                call.cancel()
            await asyncio.wait({call})
            if not call.cancelled():
                await runtime.call("bash_stop", {"id": call.result().data["id"]})

    assert await gone(word) == []
