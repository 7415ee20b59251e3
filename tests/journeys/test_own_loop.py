"""A loop of the reader's own, as the how-to page shows it: killed at any point, it goes on and does nothing twice."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/how-to/keep-your-own-loop.md"
FINAL_LINE = "Ada has been paid."
KILL = "(__import__('os').kill(__import__('os').getpid(), 9))"


def page_program() -> str:
    """The program of the page, with effects and model requests that leave a line in a file each."""
    found = re.search(r"```python file=agent.py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    program = found[1]
    program = program.replace(
        '    return f"Paid {amount} to {to}."', '    note("effect")\n    return f"Paid {amount} to {to}."'
    )
    program = program.replace(
        '    if conversation[-1]["role"] == "tool":',
        '    note("request")\n    if conversation[-1]["role"] == "tool":',
        1,
    )
    return f'def note(word):\n    with open("notes.txt", "a") as file:\n        file.write(word + "\\n")\n\n\n{program}'


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=25, check=False
    )


def kill_once(program: str, before: str) -> str:
    """The program, killed where it first comes to the given line."""
    assert before in program
    indent = re.search(rf"^( *){re.escape(before)}", program, re.MULTILINE)
    assert indent is not None
    return program.replace(f"{indent[1]}{before}", f"{indent[1]}{KILL}\n{indent[1]}{before}", 1)


@pytest.mark.parametrize(
    "point",
    [
        "save(state)  # before its calls run",
        "step = sum(",
        "outcomes = await scope.call_many(calls)",
        "conversation += messages.openai.results(calls, outcomes)",
        "if any(isinstance(each, Failed)",
        "await runtime.approve(pending_call.call_id)",
        "await add_late_results(runtime, state)",
        'state["waiting"].remove(call_id)',
    ],
)
def test_a_loop_that_is_killed_goes_on_and_pays_once(tmp_path, point):
    program = page_program()

    killed = run(tmp_path, kill_once(program, point))
    again = run(tmp_path, program)

    assert killed.returncode == -signal.SIGKILL
    assert again.stdout.splitlines()[-1] == FINAL_LINE, again.stderr
    notes = (tmp_path / "notes.txt").read_text().split()
    assert notes.count("effect") == 1
    # Three answers in all; the one that was not saved yet when the process died had to be asked for again.
    assert notes.count("request") == (4 if point.startswith("save") else 3)
