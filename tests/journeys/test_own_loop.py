"""A loop of the reader's own, as the how-to page shows it: killed at any point, it goes on and does nothing twice."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs/how-to/keep-your-own-loop.md"
FINAL_LINE = "Ada has been paid."
RECEIPT = "Paid 250 to Ada."
HARNESS = """
import os
from itertools import count

visits = count(1)

def note_request():
    with open("requests.txt", "a") as file:
        file.write("request\\n")

def kill_at(visit):
    if next(visits) == visit:
        os.kill(os.getpid(), 9)

"""
POINTS = {
    "if state[": 3,
    "save(state, await ask_model": 3,
    'state["conversation"] += new_messages': 5,
    "draft.write_text(": 5,
    "draft.replace(STATE)": 5,
    "calls = messages.openai.calls(": 3,
    "outcomes = await scope.call_many(calls)": 1,
    'state["waiting"] += ': 1,
    "save(state, *messages.openai.results": 1,
    "receipt = f": 1,
    "Path(f": 1,
    "return receipt": 1,
    "await runtime.approve(wait.call_id)": 1,
    "await add_late_results(runtime, state)": 1,
    "outcome = await runtime.result(call_id)": 1,
    'save(state, {"role": "user"': 1,
}
"""Lines of the program before which it is killed, and how often it comes to each."""
SHORT = (
    "draft.replace(STATE)",
    "calls = ",
    "save(state, *messages",
    "Path(f",
    "return receipt",
    "await runtime.approve",
)
"""The points that are not long: at their first visit."""


def kill_points() -> list[Any]:
    every = [(line, visit + 1) for line in POINTS for visit in range(POINTS[line])]
    return [
        pytest.param(line, visit, marks=() if visit == 1 and line.startswith(SHORT) else pytest.mark.long)
        for line, visit in every
    ]


def page_program() -> str:
    """The program of the page, which leaves a line in a file for each request, and pays again if it is let."""
    found = re.search(r"```python file=agent.py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    program = found[1]
    assert ".write_text(receipt)" in program
    program = program.replace(".write_text(receipt)", '.open("a").write(receipt)')
    first_line = '    if conversation[-1]["role"] == "tool":'
    assert first_line in program
    return HARNESS + program.replace(first_line, f"    note_request()\n{first_line}", 1)


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=25, check=False
    )


def kill_before(program: str, line: str, visit: int) -> str:
    """The program, killed when it comes to the given line for this time."""
    indent = re.search(rf"^( *){re.escape(line)}", program, re.MULTILINE)
    assert indent is not None, line
    return program.replace(f"{indent[1]}{line}", f"{indent[1]}kill_at({visit})\n{indent[1]}{line}", 1)


@pytest.mark.parametrize(("line", "visit"), kill_points())
def test_a_loop_that_is_killed_goes_on_and_pays_once(tmp_path, line, visit):
    program = page_program()

    killed = run(tmp_path, kill_before(program, line, visit))
    again = run(tmp_path, program)

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert again.stdout.splitlines()[-1] == FINAL_LINE, again.stderr
    [paid] = tmp_path.glob("*.paid")
    assert paid.read_text() == RECEIPT
    # Three answers in all; one that was not saved yet when the process died had to be asked for again.
    assert len((tmp_path / "requests.txt").read_text().split()) in (3, 4)


@pytest.mark.parametrize("visit", [1, *(pytest.param(visit, marks=pytest.mark.long) for visit in range(2, 6))])
def test_an_answer_that_was_saved_is_not_asked_for_again(tmp_path, visit):
    program = page_program()
    saved = program.replace("    draft.replace(STATE)", f"    draft.replace(STATE)\n    kill_at({visit})")

    assert run(tmp_path, saved).returncode == -signal.SIGKILL
    assert run(tmp_path, program).stdout.splitlines()[-1] == FINAL_LINE
    assert len((tmp_path / "requests.txt").read_text().split()) == 3


def test_a_loop_whose_budget_is_spent_stops_also_after_a_restart(tmp_path):
    program = page_program().replace("max_calls=20", "max_calls=1")

    outputs = [run(tmp_path, program).stdout.splitlines() for _ in range(2)]

    assert outputs == [["The budget of this turn is spent."] * 2] * 2
    assert (tmp_path / "requests.txt").read_text().split() == ["request"]
