"""Agents that work in the background: one process triggers them, others run them, and some are killed meanwhile."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from surehand import Runtime
from surehand.store.tables.inbox import InboxEvent

T = TypeVar("T")
AGENTS = '''
import asyncio
from pathlib import Path

from surehand import Agent, tool
from surehand.testing import ScriptedModel


def note(word):
    with Path("notes.txt").open("a") as file:
        file.write(word + "\\n")


async def pause(name):
    """Say that a moment has come, and wait until the test lets the program go on."""
    Path(name).touch()
    while not Path("go").exists():
        await asyncio.sleep(0.02)


@tool(effects={"write"})
async def send(text: str) -> str:
    """Send a letter."""
    note(f"sent {text}")
    return "Sent."


@tool(effects={"write"}, confirm=True)
async def pay(amount: int) -> str:
    """Pay an amount."""
    note(f"paid {amount}")
    return "Paid."


@tool(effects={"write"}, timeout="off")
async def write_slowly(text: str) -> str:
    """Write a long letter."""
    await pause("writing")
    note(f"wrote {text}")
    return "Written."


async def reply(messages):
    """What the model answers depends on the conversation alone, as that of a real model."""
    prompt = messages[0]["content"]
    answers = sum(message["role"] == "assistant" for message in messages)
    note(f"request {answers} {prompt}")
    match prompt, answers:
        case "pay", 0:
            return [("pay", {"amount": 5})]
        case "write", 0:
            return [("write_slowly", {"text": "a book"})]
        case _, 0:
            return [("send", {"text": prompt})]
        case "think", 1:
            await pause("thinking")
    return "Done."


clerk = Agent("clerk", model=ScriptedModel(*[reply] * 500), tools=[send, pay, write_slowly])
'''
CONFIG = "tools: [agents.py]\nstore: app.db\npolicy: [{tools: '*', decision: allow}]\n"
pytestmark = pytest.mark.timeout(120)


class Office:
    """A folder with a store and an agent, in which processes work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = str(folder / "app.db")
        (folder / "agents.py").write_text(AGENTS)
        (folder / "surehand.yaml").write_text(CONFIG)

    @contextmanager
    def work(self, *options: str) -> Iterator[subprocess.Popen[str]]:
        """A process that runs `surehand work`, from the moment at which it says so."""
        command = [sys.executable, "-m", "surehand.cli.main", "work", *options]
        process = subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            assert line == "Working for clerk until Ctrl-C.\n", line + process.stderr.read()
            yield process
        finally:
            process.kill()
            process.wait()
            process.stderr.close()

    def trigger(self, *prompts: str) -> list[InboxEvent]:
        """Trigger the agent from a process that does not have it."""

        async def trigger() -> list[InboxEvent]:
            async with Runtime(store=self.store) as runtime:
                return [await runtime.trigger("clerk", prompt, event_id=f"event {prompt}") for prompt in prompts]

        return asyncio.run(trigger())

    def find(self, event: InboxEvent) -> InboxEvent:
        async def find() -> InboxEvent | None:
            async with Runtime(store=self.store) as runtime:
                return await runtime.find_event("clerk", event.id)

        found = asyncio.run(find())
        assert found is not None
        return found

    def wait_for_end(self, event: InboxEvent) -> InboxEvent:
        return wait_until(lambda: found if (found := self.find(event)).status != "waiting" else None)

    def wait_for_file(self, name: str) -> None:
        wait_until((self.folder / name).exists)

    def go_on(self) -> None:
        (self.folder / "go").touch()

    def notes(self) -> Counter[str]:
        """How often each effect and each model request has happened."""
        return Counter((self.folder / "notes.txt").read_text().splitlines())


def wait_until(find: Callable[[], T], seconds: float = 60.0) -> T:
    deadline = time.monotonic() + seconds
    while not (value := find()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return value


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def test_a_killed_worker_leaves_its_run_to_the_next_one_and_no_effect_is_repeated(office: Office) -> None:
    [event] = office.trigger("think")
    with office.work() as first:
        office.wait_for_file("thinking")
        first.send_signal(signal.SIGKILL)
        first.wait()
    office.go_on()
    [again] = office.trigger("think")
    with office.work():
        ended = office.wait_for_end(event)

    assert again.run_id == event.run_id
    assert (ended.status, ended.attempts) == ("done", 0)
    assert office.notes() == {"sent think": 1, "request 0 think": 1, "request 1 think": 2}


def test_a_person_answers_on_the_command_line_and_the_worker_goes_on(office: Office, fast_command: list[str]) -> None:
    [event] = office.trigger("pay")
    with office.work() as worker:
        wait_until(lambda: office.find(event).run_status == "waiting")
        listed = subprocess.run(
            [*fast_command, "pending", "--json"], cwd=office.folder, capture_output=True, text=True, check=True
        )
        call_id = json.loads(listed.stdout.splitlines()[0])["call_id"]
        approve = [*fast_command, "approve", call_id, "--by", "bob"]
        subprocess.run(approve, cwd=office.folder, capture_output=True, text=True, check=True)
        ended = office.wait_for_end(event)
        worker.send_signal(signal.SIGTERM)
        code = worker.wait(60)

    assert ended.status == "done"
    assert office.notes() == {"paid 5": 1, "request 0 pay": 1, "request 1 pay": 1}
    assert code == 0


def test_a_worker_that_is_told_to_stop_finishes_its_step(office: Office) -> None:
    [event] = office.trigger("write")
    with office.work() as first:
        office.wait_for_file("writing")
        first.send_signal(signal.SIGTERM)
        assert first.stderr is not None
        assert first.stderr.readline().startswith("Finishing the steps")
        office.go_on()
        code = first.wait(60)
    left = office.find(event)
    with office.work():
        ended = office.wait_for_end(event)

    assert code == 0
    assert (left.status, left.run_status, ended.status) == ("waiting", "running", "done")
    assert office.notes() == {"wrote a book": 1, "request 0 write": 1, "request 1 write": 1}


def test_two_workers_share_the_events_and_none_is_run_twice(office: Office) -> None:
    with office.work("--concurrent", "2"), office.work("--concurrent", "2"):
        events = office.trigger(*(f"letter {number}" for number in range(12)))
        for event in events:
            assert office.wait_for_end(event).status == "done"

    assert set(office.notes().values()) == {1}
    assert len(office.notes()) == 36


@pytest.mark.parametrize(
    ("config", "message"),
    [("tools: [agents.py]\n", "No store is configured"), ("store: app.db\n", "No agents are configured")],
)
def test_what_is_missing_for_work_is_said(office: Office, fast_command: list[str], config: str, message: str) -> None:
    (office.folder / "surehand.yaml").write_text(config)
    ended = subprocess.run(
        [*fast_command, "work"], cwd=office.folder, capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.returncode == 2
    assert message in ended.stderr
