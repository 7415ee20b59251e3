"""A sub-agent asks a person, its process is killed, the person answers elsewhere, and another process goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
PROGRAM = '''
import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from surehand import Agent, Runtime, tool
from surehand.testing import ScriptedModel

FOLDER, PART = Path(sys.argv[1]), sys.argv[2]


def note(word):
    with (FOLDER / "notes.txt").open("a") as file:
        file.write(word + "\\n")


@tool(effects={"write"}, confirm=True)
async def book(flight: str) -> str:
    """Book a flight."""
    note(f"booked {flight}")
    return f"Booked {flight}."


def model_of(name, call):
    """A model that makes one call, and reports its result."""

    def answer(messages):
        note(f"request of {name}")
        results = [message["content"] for message in messages if message["role"] == "tool"]
        if not results and name == PART:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{name}: {results[0]}" if results else [call]

    return ScriptedModel(*[answer] * 9)


async def main():
    clerk = Agent("clerk", model=model_of("clerk", ("book", {"flight": "TW7"})), tools=[book])
    ask_clerk = ("agent__clerk", {"prompt": "Book TW7."})
    boss = Agent("boss", model=model_of("boss", ask_clerk), tools=[], agents=[clerk])
    async with Runtime(boss, store=str(FOLDER / "app.db")) as runtime:
        run = await boss.run("Go.", user="ada", session="s1", run_id="r1", runtime=runtime)
        waiting = [[wait.call_id, list(wait.path)] for wait in run.waiting]
        print(json.dumps({"status": run.status, "text": run.text, "waiting": waiting}), flush=True)
        if PART == "when it waits":
            os.kill(os.getpid(), signal.SIGKILL)


asyncio.run(main())
'''


def run_agents(folder: Path, killed: str = "") -> dict[str, Any]:
    """Run the program; it is killed when the run waits, or at the first request of an agent's model."""
    command = [sys.executable, "-c", PROGRAM, str(folder), killed]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == (-signal.SIGKILL if killed else 0), ended.stderr
    return json.loads(ended.stdout) if ended.stdout else {}


@pytest.mark.timeout(240)
def test_a_person_answers_a_sub_agent_after_its_process_is_gone(tmp_path, fast_command):
    run_agents(tmp_path, killed="clerk")
    [[call_id, path]] = run_agents(tmp_path, killed="when it waits")["waiting"]
    approve = [*fast_command, "approve", call_id, "--store", str(tmp_path / "app.db")]
    said = subprocess.run(approve, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    run = run_agents(tmp_path)

    assert path == ["boss", "clerk"]
    assert "a tool of the agent clerk, which is not here" in said.stdout + said.stderr
    assert run == {"status": "done", "text": "boss: clerk: Booked TW7.", "waiting": []}
    notes = Counter((tmp_path / "notes.txt").read_text().splitlines())
    assert notes == {"booked TW7": 1, "request of boss": 2, "request of clerk": 3}
