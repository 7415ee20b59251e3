"""`bash` in the foreground, in a workspace."""

import asyncio
import json
import os
import signal
from contextlib import suppress
from time import monotonic

import psutil
import pytest

from surehand import DefinitionError, Done, Failed, Policy, Runtime, events
from surehand.builtin.shell import command as command_module
from surehand.builtin.shell.tools import shell
from surehand.runtime import background_tasks
from surehand.sandbox import bubblewrap
from surehand.sandbox.sandbox import UNPROTECTED, Sandbox
from surehand.workspace.workspace import Workspace
from tests.requirements import needs
from tests.sandbox.remains import descriptors, gone, marker, wait_until_closed

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time

KINDS = [pytest.param(None, id="sandbox", marks=needs("bubblewrap")), pytest.param(UNPROTECTED, id="unprotected")]
jailed = needs("bubblewrap")


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


async def bash(folder, command, *, sandbox=None, shell_options=None, **arguments):
    """Run one call in its own runtime."""
    async with Runtime(*shell(folder, sandbox=sandbox, **(shell_options or {}))) as runtime:
        return await runtime.call("bash", {"command": command, **arguments})


async def run_until_timeout(folder, command, **options):
    """Run one call that times out as soon as it has printed something."""
    loop, limit = asyncio.get_running_loop(), 20
    now = loop.time

    def pass_the_time(event):
        if isinstance(event, events.CallProgress):
            loop.time = lambda: now() + limit

    async with Runtime(*shell(folder, **options)) as runtime:
        runtime.listen(pass_the_time)
        return await runtime.call("bash", {"command": command, "timeout": limit * 1000})


async def until(path):
    """Wait for a file that a command creates."""
    while not path.exists():  # noqa: ASYNC110 - it comes from another process
        await asyncio.sleep(0.01)


async def test_output_is_returned_as_text_with_metadata(tmp_path, kind):
    outcome = await bash(tmp_path, "echo hello; pwd", sandbox=kind, description="Say hello")

    assert outcome.text == f"hello\n{tmp_path}"
    assert outcome.title == "Say hello"
    assert {**outcome.metadata, "durationMs": 0} == {
        "command": "echo hello; pwd", "exitCode": 0, "truncated": False, "durationMs": 0, "error": None}  # fmt: skip


@jailed
async def test_a_command_without_output_says_so(tmp_path):
    assert (await bash(tmp_path, "true")).text == "(no output)"


async def test_stdout_and_stderr_are_shown_in_their_order(tmp_path, kind):
    command = "for i in 1 2 3; do echo out $i; echo err $i >&2; done"

    outcome = await bash(tmp_path, command, sandbox=kind)

    assert outcome.text == "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3"


async def test_a_failing_command_fails_with_its_exit_code_and_output(tmp_path, kind):
    outcome = await bash(tmp_path, "echo so far; echo why >&2; exit 4", sandbox=kind)

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.executed) == ("failed", True)
    assert outcome.message == "exit code 4\nso far\nwhy"
    assert (outcome.data["exitCode"], outcome.data["error"]) == (4, "exit code 4")


async def test_failure_text_of_a_command_is_not_wrapped_in_a_bracket_that_looks_like_output(tmp_path, kind):
    failed = await bash(tmp_path, "echo 'f(x'; exit 1", sandbox=kind)
    silent = await bash(tmp_path, "exit 2", sandbox=kind)

    assert failed.text == "Tool failed: exit code 1\nf(x"
    assert silent.text == "Tool failed: exit code 2\n(no output)"


async def test_a_command_ended_by_a_signal_names_the_signal(tmp_path, kind):
    outcome = await bash(tmp_path, "kill -SEGV $$", sandbox=kind)

    assert outcome.message == "exit code 139 (SIGSEGV)\n(no output)"


async def test_a_command_that_times_out_is_stopped_and_shows_its_output(tmp_path, kind):
    outcome = await run_until_timeout(tmp_path, "echo so far; sleep 60", sandbox=kind)

    assert outcome.code == "timed_out"
    assert outcome.message == "timed out after 20 s, and was stopped\nso far"
    assert (outcome.data["exitCode"], outcome.data["truncated"]) == (None, False)


async def test_output_printed_while_stopping_is_shown(tmp_path, kind):
    command = "trap 'echo bye; exit' TERM; echo hello; while :; do sleep 0.01; done"

    stopped = await run_until_timeout(tmp_path, command, sandbox=kind, grace=20)

    assert "\nhello\n" in stopped.message
    assert stopped.message.endswith("\nbye")  # above it, the shell may say that its `sleep` was terminated


@jailed
async def test_each_call_is_a_new_shell_in_the_same_folder(tmp_path):
    async with Runtime(*shell(tmp_path)) as runtime:
        await runtime.call("bash", {"command": "echo made > file; x=1; cd /"})

        assert (await runtime.call("bash", {"command": "echo ${x:-none}; cat file"})).text == "none\nmade"


@jailed
async def test_a_command_may_look_like_an_option(tmp_path):
    assert "-x: command not found" in (await bash(tmp_path, "-x")).message


async def test_a_command_has_no_input(tmp_path, kind):
    assert (await bash(tmp_path, "read -r line; echo $?", sandbox=kind)).text == "1"


@jailed
async def test_a_command_is_not_expanded_twice(tmp_path):
    """The shell in the sandbox is the only one that expands the command."""
    command = "printf '%s|' '$(id)' '`id`' \"a'b\" '${HOME}' '\\' ';' '&&'"

    assert (await bash(tmp_path, command)).text == "$(id)|`id`|a'b|${HOME}|\\|;|&&|"


@jailed
@pytest.mark.parametrize(
    ("workdir", "code"),
    [("..", "denied"), ("/etc", "denied"), ("../../etc", "denied"), ("missing", "not_found"), ("link", "denied"),
     ("file", "invalid_arguments"), ("", "invalid_arguments"), ("sub\0x", "invalid_arguments")],
)  # fmt: skip
async def test_the_working_directory_is_inside_the_workspace(tmp_path, workdir, code):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("/etc")

    assert (await bash(tmp_path, "touch ran", workdir=workdir)).code == code


async def test_a_command_runs_in_the_folder_it_is_given(tmp_path, kind):
    (tmp_path / "sub" / "deep").mkdir(parents=True)

    assert (await bash(tmp_path, "pwd", sandbox=kind, workdir="sub/deep")).text == f"{tmp_path}/sub/deep"
    assert (await bash(tmp_path, "pwd", sandbox=kind, workdir=str(tmp_path / "sub"))).text == f"{tmp_path}/sub"


@jailed
@pytest.mark.parametrize(
    "wrong",
    [{"timeout": 0}, {"timeout": 600_001}, {"timeout": "soon"}, {"command": ""}, {"command": "a\0b"},
     {"command": "x" * 200_000}, {"shell": True}],
)  # fmt: skip
async def test_wrong_arguments_run_nothing(tmp_path, wrong):
    async with Runtime(*shell(tmp_path)) as runtime:
        assert (await runtime.call("bash", {"command": "touch ran", **wrong})).code == "invalid_arguments"
    assert not (tmp_path / "ran").exists()


def excerpt_of(text):
    """The summary of the handle, the first lines and the last lines of an output that is too long to be shown."""
    header, _, shown = text.partition("\n")
    head, left_out, tail = shown.partition("\n[... lines ")
    return (
        json.loads(header)["tool_output"],
        head.split("\n"),
        tail.partition(" left out ...]\n")[2].split("\n"),
        left_out,
    )


async def test_output_beyond_the_limit_is_kept_under_a_handle_and_shown_by_whole_lines(tmp_path, kind):
    numbers = [str(number) for number in range(1, 20001)]
    async with Runtime(*shell(tmp_path, sandbox=kind)) as runtime:
        outcome = await runtime.call("bash", {"command": "seq 1 10000; seq 10001 20000 >&2"})
        summary, head, tail, left_out = excerpt_of(outcome.text)
        middle = await runtime.call("tool_output", {"handle": summary["handle"], "lines": "9999-10002"})

    assert left_out
    assert head == numbers[: len(head)]
    assert tail == numbers[-len(tail) :]
    assert summary["left_out"] == f"{len(head) + 1}-{len(numbers) - len(tail)}"
    assert 25_000 < len(outcome.text) <= 30_000
    assert middle.text == "9999\t9999\n10000\t10000\n10001\t10001\n10002\t10002"
    assert (outcome.metadata["truncated"], outcome.data) == (True, "\n".join(numbers))


async def test_output_of_a_failing_command_beyond_the_limit_is_kept_under_a_handle(tmp_path, kind):
    async with Runtime(*shell(tmp_path, sandbox=kind)) as runtime:
        outcome = await runtime.call("bash", {"command": "seq 1 20000; exit 5"})
        reason, _, rest = outcome.text.partition("\n")
        summary, head, tail, _ = excerpt_of(rest)
        middle = await runtime.call("tool_output", {"handle": summary["handle"], "lines": "10000"})

    assert reason == "Tool failed: exit code 5"
    assert (head[:2], tail[-2:]) == (["1", "2"], ["19999", "20000"])
    assert (middle.text, outcome.data["exitCode"]) == ("10000\t10000", 5)


@jailed
async def test_output_within_the_limit_is_shown_completely(tmp_path):
    outcome = await bash(tmp_path, "head -c 30000 /dev/zero | tr '\\0' x")

    assert outcome.text == "x" * 30_000


@jailed
async def test_no_character_is_cut_in_half(tmp_path):
    outcome = await bash(tmp_path, "for i in $(seq 20000); do printf '\\xe2\\x82\\xac'; done")

    assert "left out" in outcome.text
    assert "\N{REPLACEMENT CHARACTER}" not in outcome.text


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (r"\033[1;31mred\033[0m", "red"),
        (r"\033]0;title\007after", "after"),
        (r"\033]8;;http://x\033\\link\033]8;;\033\\", "link"),
        (r"\033P1;2qsixel\033\\after", "after"),
        (r"\033]unended", "]unended"),
        (r"\033(B\033=\033>x", "x"),
        (r"\xc2\x9b31mred", "red"),
        (r"a\007b\000c\010d", "a�b�c�d"),
        (r"a\r\nb\rc", "a\nb\nc"),
        (r"tab\tnew\nline", "tab\tnew\nline"),
        (r"\xff\xfe", "��"),
        (r"a\xe2\x80\xaeb", "a\\u{202e}b"),
        (r"a\xf3\xa0\x81\x81b", "a\\u{e0041}b"),
        (r"\xe2\x82\xac \xf0\x9f\x98\x80", "€ 😀"),
    ],
)
@jailed
async def test_terminal_control_sequences_are_escaped(tmp_path, printed, shown):
    assert (await bash(tmp_path, f"printf '{printed}'")).text.lstrip("�") == shown.lstrip("�")


@pytest.mark.parametrize("flood", ["yes", "cat /dev/zero & yes >&2 & wait"])
async def test_endless_output_is_stopped_and_memory_stays_flat(tmp_path, kind, flood):
    options = {"sandbox": kind, "shell_options": {"max_output": "1MiB"}}
    await bash(tmp_path, flood, **options)
    before, began = psutil.Process().memory_info().rss, monotonic()

    outcome = await bash(tmp_path, flood, **options)

    assert monotonic() - began < 20
    assert outcome.code == "too_large"
    assert "filter its output" in outcome.message
    assert psutil.Process().memory_info().rss - before < 32 << 20


async def test_of_endless_output_the_first_and_last_megabytes_are_kept(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(command_module, "MAX_KEPT_BYTES", 1 << 20)
    async with Runtime(*shell(tmp_path, sandbox=kind, max_output="2GiB")) as runtime:
        long = await runtime.call("bash", {"command": "seq 1 2000000"})
        before = psutil.Process().memory_info().rss
        line = await runtime.call("bash", {"command": "head -c 100M /dev/zero | tr '\\0' x"})

    lines = long.data.split("\n")
    note = next(index for index, line in enumerate(lines) if line.startswith("[... "))
    assert lines[:note] == [str(number) for number in range(1, note + 1)]
    assert lines[note + 1 :] == [str(number) for number in range(2000000 - len(lines) + note + 2, 2000001)]
    assert f"{(99 << 20):,} bytes were not kept" in line.data
    assert psutil.Process().memory_info().rss - before < 32 << 20


async def test_output_is_reported_as_progress(tmp_path, kind):
    told = []

    def listen(event):
        if isinstance(event, events.CallProgress):
            told.append(event)
            (tmp_path / "told").touch()

    wait = "until [ -e told ]; do sleep 0.01; done; sleep 0.3"  # longer than there is between two reports
    async with Runtime(*shell(tmp_path, sandbox=kind)) as runtime:
        runtime.listen(listen)
        await runtime.call(
            "bash", {"command": f"echo first; {wait}; echo second; for i in $(seq 500); do echo $i; done"}
        )

    assert [event.message.split()[0] for event in told[:2]] == ["first", "second"]
    assert len(told) < 100


async def test_a_cancelled_call_leaves_no_process(tmp_path, kind):
    word = marker()
    async with Runtime(*shell(tmp_path, sandbox=kind)) as runtime:
        await runtime.call("bash", {"command": "true"})
        before = descriptors()
        call = asyncio.create_task(
            runtime.call("bash", {"command": f": {word}; touch began; trap '' TERM; sleep 60; sleep 60"})
        )
        await until(tmp_path / "began")

        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        assert await gone(word) == []
        assert await wait_until_closed(before) == []


async def test_a_call_that_is_cancelled_by_its_id_leaves_no_process(tmp_path, kind):
    word = marker()
    async with Runtime(*shell(tmp_path, sandbox=kind)) as runtime:
        call = asyncio.create_task(runtime.call("bash", {"command": f": {word}; touch began; sleep 60"}, call_id="c1"))
        await until(tmp_path / "began")
        await runtime.cancel("c1")

        assert (await call).code == "cancelled"
        assert await gone(word) == []


async def test_the_timeout_of_the_caller_applies_too(tmp_path, kind):
    word = marker()
    async with Runtime(*shell(tmp_path, sandbox=kind)) as runtime:
        outcome = await runtime.call("bash", {"command": f": {word}; sleep 60"}, timeout=0.3)

        assert outcome.code == "timed_out"
        assert await gone(word) == []


async def test_closing_the_runtime_ends_running_commands(tmp_path, kind):
    word = marker()
    async with Runtime(*shell(tmp_path, sandbox=kind)) as runtime:
        call = asyncio.create_task(runtime.call("bash", {"command": f": {word}; touch began; sleep 60"}))
        await until(tmp_path / "began")
    with pytest.raises((asyncio.CancelledError, Exception)):
        (await call).unwrap()

    assert await gone(word) == []


async def test_a_command_that_outlives_its_runtime_leaves_nothing_open(tmp_path, kind, monkeypatch):
    """A busy machine may take longer to end a command than a runtime waits for it."""
    monkeypatch.setattr(background_tasks, "CANCELLATION_GRACE_SECONDS", 0.01)
    async with Runtime(*shell(tmp_path, sandbox=kind)) as runtime:
        await runtime.call("bash", {"command": "true"})
        before, others = descriptors(), set(psutil.Process().children())
        call = asyncio.create_task(runtime.call("bash", {"command": "touch began; sleep 60"}))
        await until(tmp_path / "began")
        (child,) = set(psutil.Process().children()) - others
        child.send_signal(signal.SIGSTOP)
    assert (await call).code == "cancelled"
    with suppress(psutil.NoSuchProcess):  # a supervisor goes on by itself when it is to end its command
        child.send_signal(signal.SIGCONT)

    assert await wait_until_closed(before) == []


@jailed
async def test_policy_decides_before_a_command_runs(tmp_path):
    async with Runtime(*shell(tmp_path), policy=Policy.default()) as runtime:
        outcome = await runtime.call("bash", {"command": "touch ran"})

        assert outcome.waiting_for == "approval"
        assert outcome.message.endswith("touch ran")
        assert not (tmp_path / "ran").exists()
        assert isinstance(await runtime.approve(outcome.call_id), Done)
        assert (tmp_path / "ran").exists()


@jailed
async def test_the_approval_question_shows_the_whole_command(tmp_path):
    hidden = "ls\n# \x1b[8mrm -rf .\x1b[0m \u202eevil"
    async with Runtime(*shell(tmp_path), policy=Policy.default()) as runtime:
        outcome = await runtime.call("bash", {"command": hidden})

    assert "ls\n# \\u001b[8mrm -rf .\\u001b[0m \\u202eevil" in outcome.message


async def test_the_tool_can_be_run_without_a_runtime(tmp_path, kind):
    command, *_ = shell(tmp_path, sandbox=kind)

    assert (await command.run({"command": "echo fine"})).text == "fine"


async def test_secrets_of_this_process_are_not_in_the_environment(tmp_path, kind, monkeypatch):
    monkeypatch.setenv("API_KEY", "s3cret-of-ours")

    assert "s3cret" not in (await bash(tmp_path, "env; set", sandbox=kind)).text


@jailed
async def test_variables_of_the_developer_are_in_the_environment(tmp_path):
    assert (await bash(tmp_path, "echo $MODE", sandbox=Sandbox(env={"MODE": "test"}))).text == "test"


@jailed
async def test_further_folders_of_the_workspace_are_mounted(tmp_path):
    for name in ("main", "more", "docs"):
        (tmp_path / name).mkdir()
    workspace = Workspace(tmp_path / "main", extra=[tmp_path / "more"], read_only=[tmp_path / "docs"])

    outcome = await bash(workspace, "touch ../more/a; touch ../docs/b; ls ..; ls ../more ../docs")

    assert "Read-only file system" in outcome.text
    assert os.listdir(tmp_path / "more") == ["a"]
    assert os.listdir(tmp_path / "docs") == []


async def test_without_a_sandbox_bash_is_unavailable(tmp_path, monkeypatch):
    for known in (bubblewrap.check_bubblewrap, bubblewrap.find_bubblewrap, bubblewrap._help_text):
        known.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    try:
        outcome = await bash(tmp_path, "touch ran")
    finally:
        monkeypatch.undo()

    assert (outcome.code, outcome.executed) == ("unavailable", False)
    assert "apt install bubblewrap" in outcome.message
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("sandbox", ["none", False, True, "unprotected", object()])
def test_running_without_a_sandbox_must_be_requested_explicitly(tmp_path, sandbox):
    with pytest.raises(DefinitionError, match="UNPROTECTED"):
        shell(tmp_path, sandbox=sandbox)


@pytest.mark.parametrize(
    "wrong",
    [{"life": "long"}, {"life": -1}, {"max_unread": "much"}, {"max_output": 0}, {"grace": -1}, {"background": -1}],
)
def test_invalid_limits_are_a_definition_error(tmp_path, wrong):
    with pytest.raises(DefinitionError):
        shell(tmp_path, **wrong)


def test_a_workspace_of_the_whole_machine_is_refused():
    with pytest.raises(DefinitionError, match="cannot show /"):
        shell("/")


@pytest.mark.parametrize("sandbox", [Sandbox(network=True), UNPROTECTED])
async def test_a_shell_with_network_or_without_a_sandbox_has_the_effect_network(tmp_path, sandbox):
    deny_network = Policy([{"effects": ["network"], "decision": "deny"}])
    async with Runtime(shell(tmp_path, sandbox=sandbox), policy=deny_network) as runtime:
        outcomes = [await runtime.call("bash", {"command": "true", "background": flag}) for flag in (False, True)]
        [described] = [each for each in runtime.describe("mcp") if each["name"] == "bash"]

    assert runtime.catalogue.find("bash").policy_effects == {"execute", "network"}
    assert [outcome.code for outcome in outcomes] == ["denied", "denied"]
    assert described["annotations"]["openWorldHint"] is True


async def test_a_shell_without_network_is_not_stopped_by_a_deny_of_network(tmp_path):
    deny_network = Policy([{"effects": ["network"], "decision": "deny"}])
    async with Runtime(shell(tmp_path), policy=deny_network) as runtime:
        [described] = [each for each in runtime.describe("mcp") if each["name"] == "bash"]

    assert not runtime.policy.always_denies(runtime.catalogue.find("bash"))
    assert described["annotations"]["openWorldHint"] is False


def test_the_tools_say_what_they_do(tmp_path):
    command, output, stop = shell(tmp_path)

    assert "There is no network" in command.description
    assert "There is no network" not in shell(tmp_path, sandbox=UNPROTECTED)[0].description
    assert command.safety.effects == {"execute"}
    assert (output.safety.effects, stop.safety.effects) == ({"read"}, {"execute"})
    assert not any(tool.presentation.visible for tool in (command, output, stop))


@needs("python in /usr")
@jailed
async def test_ordinary_work_gets_done(tmp_path):
    test = "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(1, 1)\n"
    (tmp_path / "test_it.py").write_text(test)

    outcome = await bash(tmp_path, "python3 -m unittest -q 2>&1; awk 'BEGIN {print 1+1}'; ls | sort", timeout=20_000)

    assert "OK" in outcome.text
    assert "\n2\n" in outcome.text
