"""Runs of an agent whose process is gone: a person answers on the command line, and another process goes on."""

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

from surehand import Runtime, tool
from surehand.agent.agent import Agent
from surehand.agent.models.scripted import ScriptedModel

FOLDER, WHOSE_TOOLS, PART = Path(sys.argv[1]), sys.argv[2], sys.argv[3]


def note(word):
    with (FOLDER / "notes.txt").open("a") as file:
        file.write(word + "\\n")


@tool(effects={"read"})
async def look_up(what: str) -> str:
    """Look something up."""
    return f"Found {what}."


@tool(effects={"write"}, confirm=True)
async def book(flight: str) -> str:
    """Book a flight."""
    note(f"booked {flight}")
    return f"Booked {flight}."


@tool(effects={"write"})
async def pay(to: str) -> str:
    """Pay a person."""
    note(f"paid {to}")
    if PART == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return f"Paid {to}."


def travel(messages):
    """The model books a flight, and reports the result."""
    note("request")
    results = [message["content"] for message in messages if message["role"] == "tool"]
    return f"Result: {results[0]}" if results else [("book", {"flight": "TW7"})]


def clerk(messages):
    """The model pays, and pays again when it does not learn whether it did."""
    note("request")
    match sum(message["role"] == "assistant" for message in messages):
        case 0:
            return [("look_up", {"what": "the bill"}), ("pay", {"to": "ann"})]
        case 1:
            return [("pay", {"to": "ann"})]
    return f"Heard: {messages[-1]['content']}"


async def main():
    model = {"book": travel, "pay": clerk}[sys.argv[4]]
    tools = [look_up, book, pay]
    own_tools, names = (tools, []) if WHOSE_TOOLS == "agent" else ([], ["look_up", "book", "pay"])
    agent = Agent("travel", model=ScriptedModel(*[model] * 9), tools=[*own_tools, *names])
    async with Runtime(*([] if own_tools else tools), store=str(FOLDER / "app.db")) as runtime:
        run = await agent.run("Go.", user="ada", session="s1", run_id=sys.argv[5], runtime=runtime)
        waiting = [[wait.call_id, wait.waiting_for] for wait in run.waiting]
        print(json.dumps({"status": run.status, "text": run.text, "waiting": waiting}), flush=True)
        if PART == "kill":
            os.kill(os.getpid(), signal.SIGKILL)


asyncio.run(main())
'''


class Trip:
    """A folder with a store, in which the programs of a story run one after another."""

    def __init__(self, folder: Path, surehand: list[str], whose_tools: str, story: str) -> None:
        self._folder = folder
        self._surehand = surehand
        self._whose_tools = whose_tools
        self._story = story

    def run_agent(self, part: str = "go on", run_id: str = "r1") -> dict[str, Any]:
        """Run the program with the agent; `kill` ends it at once when the run waits, `die` in the middle of a call."""
        command = [sys.executable, "-c", PROGRAM, str(self._folder), self._whose_tools, part, self._story, run_id]
        ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == (0 if part == "go on" else -signal.SIGKILL), ended.stderr
        return json.loads(ended.stdout) if ended.stdout else {}

    def answer(self, *command: str) -> str:
        """Answer a call in a process that has neither the agent nor its tools."""
        arguments = [*self._surehand, *command, "--store", str(self._folder / "app.db")]
        ended = subprocess.run(arguments, cwd=self._folder, capture_output=True, text=True, timeout=60, check=False)
        return ended.stdout + ended.stderr

    def notes(self) -> Counter[str]:
        """How often each effect and each model request has happened."""
        return Counter((self._folder / "notes.txt").read_text().splitlines())


@pytest.mark.timeout(120)
@pytest.mark.parametrize("whose_tools", ["runtime", "agent"])
def test_a_person_answers_after_the_process_of_the_run_is_gone(tmp_path, fast_command, whose_tools):
    trip = Trip(tmp_path, fast_command, whose_tools, "book")

    [[call_id, waiting_for]] = trip.run_agent("kill")["waiting"]
    said = trip.answer("approve", call_id, "--by", "bob")
    run = trip.run_agent()

    assert waiting_for == "approval"
    assert ("a tool of the agent travel, which is not here" in said) is (whose_tools == "agent"), said
    assert run == {"status": "done", "text": "Result: Booked TW7.", "waiting": []}
    assert trip.notes() == {"booked TW7": 1, "request": 2}


@pytest.mark.timeout(120)
def test_a_model_that_calls_again_while_the_effect_is_unknown_has_one_effect(tmp_path, fast_command):
    trip = Trip(tmp_path, fast_command, "runtime", "pay")

    trip.run_agent("die")
    waiting = trip.run_agent()
    [[call_id, _]] = waiting["waiting"]
    trip.answer("settle", call_id, '"It was paid."')
    run = trip.run_agent()

    assert waiting["status"] == "waiting"
    assert run["status"] == "done"
    assert "It was paid." in run["text"]
    assert trip.notes()["paid ann"] == 1


@pytest.mark.timeout(120)
def test_a_later_run_of_the_session_that_calls_again_while_the_effect_is_unknown_has_one_effect(tmp_path, fast_command):
    trip = Trip(tmp_path, fast_command, "runtime", "pay")

    trip.run_agent("die")
    waiting = trip.run_agent(run_id="r2")
    [[call_id, _]] = waiting["waiting"]
    trip.answer("settle", call_id, '"It was paid."')
    run = trip.run_agent(run_id="r2")

    assert waiting["status"] == "waiting"
    assert call_id.startswith("r1.")
    assert run["status"] == "done"
    assert "It was paid." in run["text"]
    assert trip.notes()["paid ann"] == 1
