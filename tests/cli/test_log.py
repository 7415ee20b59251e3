"""The log on stderr: `--log LEVEL` of every command, and `log: LEVEL` in the configuration."""

import re

import pytest

from surehand.cli.command_group import COMMANDS

TOOLS = '''
import logging
from surehand import ToolError, tool

@tool(effects={"read"})
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    logging.getLogger("surehand.tool.add").debug("adding")
    logging.getLogger("surehand.tool.add").warning("a warning")
    return a + b

@tool(effects={"read"})
async def fail() -> int:
    """Fail."""
    raise ToolError("It is raining.")

@tool(effects={"write"})
async def write() -> None:
    """Write."""
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path


def call_lines(text):
    return [line for line in text.splitlines() if line.startswith("info: ") or " characters in, " in line]


def test_with_log_info_each_call_is_one_line_on_stderr(run, folder):
    ran = run("call", "-t", "tools.py", "add", '{"a": 1, "b": 2}', "--log", "info")

    [line] = call_lines(ran.err)
    assert re.fullmatch(r"info: add ok: \d+ ms, \d+ characters in, 1 out, call \w+", line)
    assert ran.lines[0]["data"] == 3
    assert "debug: adding" not in ran.err


def test_the_configuration_sets_the_level_too(run, folder):
    (folder / "surehand.yaml").write_text("tools: [tools.py]\nlog: debug\n")

    ran = run("call", "add", "a=1", "b=2")

    assert len(call_lines(ran.err)) == 1
    assert "debug: adding" in ran.err


def test_the_command_line_wins_over_the_configuration(run, folder):
    (folder / "surehand.yaml").write_text("tools: [tools.py]\nlog: debug\n")

    assert run("call", "add", "a=1", "b=2", "--log", "error").err == ""
    (folder / "surehand.yaml").write_text("tools: [tools.py]\nlog: off\n")
    assert call_lines(run("call", "add", "a=1", "b=2", "--log", "info").err)
    assert run("call", "add", "a=1", "b=2").err == ""


def test_without_a_level_warnings_are_shown_and_calls_are_not(run, folder):
    assert run("call", "-t", "tools.py", "add", "a=1", "b=2").err == "warning: a warning\n"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("fail",), "fail failed"),
        (("write",), "write failed (unavailable)"),
        (("write", "--store", "calls.db"), "write waits for approval"),
        (("absent",), "absent failed (not_found)"),
        (("add", "a=x", "b=2"), "add failed (invalid_arguments)"),
    ],
)
def test_calls_that_fail_or_wait_are_a_line_too(run, folder, words, status):
    ran = run("call", "-t", "tools.py", *words, "--log", "info")

    assert [line.partition(":")[2].strip().partition(":")[0] for line in call_lines(ran.err)] == [status]


def test_a_failed_call_is_logged_as_a_warning(run, folder):
    (folder / "surehand.yaml").write_text("tools: [tools.py]\n")

    failed, done = (run("call", *words, "--log", "info").err for words in (("fail",), ("add", "a=1", "b=2")))

    assert "warning: fail failed: " in failed
    assert "info: add ok: " in done
    assert "fail failed" not in run("call", "fail").err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_the_option(run, name):
    words = {"store": ["store", "info"], "audit": ["audit", "verify"], "lock": ["lock", "diff"]}.get(name, [name])
    words = ["config", "check"] if name == "config" else words

    assert "--log LEVEL" in run(*words, "--help").out


def test_a_group_that_lists_by_itself_takes_the_option(run):
    assert "--log LEVEL" in run("audit", "--help").out
    assert "--log LEVEL" not in run("store", "--help").out


def test_an_unknown_level_is_refused(run, folder):
    assert run("call", "-t", "tools.py", "add", "--log", "loud").code == 2
    (folder / "surehand.yaml").write_text("tools: [tools.py]\nlog: hunter2\n")
    ran = run("call", "add")
    assert (ran.code, "hunter2" in ran.err) == (2, False)
    assert "surehand.yaml:2: log has an unknown level. Fix: use debug, info, warning, error, off." in ran.err


def test_what_a_call_says_is_never_in_its_line(run, folder):
    ran = run("call", "-t", "tools.py", "add", "a=hunter2", "b=2", "--log", "info")

    assert "hunter2" not in "".join(call_lines(ran.err))


def test_with_log_debug_the_request_is_a_line_too_and_long_values_are_cut(run, folder):
    ran = run("call", "-t", "tools.py", "add", "a=1", f"b={'7' * 500}x", "--log", "debug")

    [line] = [line for line in ran.err.splitlines() if line.startswith("debug: add requested: ")]
    assert line.startswith("debug: add requested: a=1, b='7777")
    assert len(line) < 300
    assert ran.lines[0]["call_id"] in line
    assert ran.err.index(line) < ran.err.index("warning: add failed")
