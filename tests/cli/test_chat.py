"""`surehand chat`, in a terminal: turns, calls, approvals, steering, Ctrl-C and history."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from surehand import Runtime

AGENTS = str(Path(__file__).with_name("agents.py"))
STORES = [pytest.param((), id="no store"), pytest.param(("--store", "s.db"), id="store")]


@pytest.fixture
def chat(terminal):
    def open_chat(agent: str = "helper", *arguments: str):
        screen = terminal("chat", "-t", AGENTS, agent, *arguments)
        screen.sees(f"Talking to {agent} ")
        screen.sees("you> ")
        return screen

    return open_chat


def test_turns_continue_one_conversation_until_ctrl_d(chat):
    screen = chat()
    screen.types("hello")
    screen.sees(r"I heard: hello\. \\u001b\[31mBye\.")  # the escape sequence of the model is shown, not obeyed
    screen.sees("you> ")
    screen.types("again")
    screen.sees(r"I heard: hello \| again\.")
    screen.sees("you> ")
    screen.types("\x04", enter=False)

    assert screen.ends() == 0


def test_calls_are_shown_with_progress_and_result(chat):
    screen = chat()
    screen.types("add")

    screen.sees(r'\[add\] {"a": 1, "b": 2}')
    screen.sees(r"\[add\] half way 50%")
    screen.sees(r"\[add\] done: 3")
    screen.sees("The result: 3")
    screen.sees("you> ")
    screen.types("/exit")
    assert screen.ends() == 0


@pytest.mark.parametrize(("decision", "result"), [("y", "Paid 5 to Ada."), ("n", "rejected")])
@pytest.mark.parametrize("store", STORES)
def test_an_approval_is_asked_for_in_place(chat, decision, result, store):
    screen = chat("helper", *store)
    screen.types("pay")
    screen.sees("pay asks first")
    screen.sees(r"Run it\? \[y\]es, \[n\]o, \[e\]dit: ")
    screen.types(decision)

    screen.sees(f"The result: .*{result}")
    screen.sees("you> ")
    screen.types("/exit")
    assert screen.ends() == 0


def test_arguments_can_be_edited_in_place(chat):
    screen = chat()
    screen.types("pay")
    screen.sees("dit: ")
    screen.types("e")
    screen.sees("Arguments: ")
    screen.types('\x15{"amount": 7, "to": "Bob"}')
    screen.sees("dit: ")
    screen.types("y")

    screen.sees("The result: Paid 7 to Bob.")


def test_a_tool_that_asks_the_person_is_answered_in_place(chat):
    screen = chat("helper", "--store", "s.db")
    screen.types("size")
    screen.sees("ask_size asks you")
    screen.sees(r"Answer \(JSON or text\): ")
    screen.types("42")

    screen.sees("The result: 42")
    screen.sees("you> ")


@pytest.mark.parametrize("store", STORES)
def test_ctrl_c_cancels_the_turn_and_the_conversation_goes_on(chat, store):
    screen = chat("helper", *store)
    screen.types("sleep")
    screen.sees(r"\[sleep_long\] {}")
    screen.interrupts()
    screen.sees("cancelled: the turn was ended")
    screen.sees("you> ")
    screen.types("hello")

    screen.sees(r"I heard: sleep \| hello\.")
    screen.sees("you> ")
    screen.types("/exit")
    assert screen.ends() == 0


@pytest.mark.parametrize("store", STORES)
def test_ctrl_c_at_an_approval_cancels_the_turn(chat, store):
    screen = chat("helper", *store)
    screen.types("pay")
    screen.sees("dit: ")
    screen.interrupts()
    screen.sees("cancelled: the turn was ended")
    screen.sees("you> ")
    screen.types("hello")

    screen.sees(r"I heard: pay \| hello\.")


@pytest.mark.parametrize(("prompt", "shown"), [("sleep", r"\[sleep_long\] {}"), ("pay", "dit: "), ("size", "Answer")])
def test_ctrl_c_stops_the_run_for_good_and_closes_what_it_waits_for(chat, tmp_path, prompt, shown):
    screen = chat("helper", "--store", "s.db")
    screen.types(prompt)
    screen.sees(shown)
    screen.interrupts()
    screen.sees("cancelled: the turn was ended")
    screen.sees("you> ")
    states, waits = asyncio.run(find_runs_and_waits(str(tmp_path / "s.db")))

    assert (states, waits) == ([("stopped", "The user cancelled the turn.")], 0)


async def find_runs_and_waits(address):
    async with Runtime(store=address) as runtime:
        runs = await runtime.store.runs.latest()
        return [(each.state, each.reason) for each in runs], len(await runtime.pending())


def test_typing_during_a_turn_steers_it(chat, tmp_path):
    screen = chat("walker")
    screen.types("walk")
    screen.sees(r"\[wait_a_little\] waiting")
    screen.types("rather Porto")
    screen.sees(r"\(told the agent\)")
    (tmp_path / "go").touch()

    screen.sees("I heard: rather Porto")
    screen.sees("you> ")
    screen.types("/exit")
    assert screen.ends() == 0


def test_earlier_lines_can_be_brought_back(chat):
    screen = chat()
    screen.types("hello")
    screen.sees("I heard: hello")
    screen.sees("you> ")
    screen.types("\x1b[A")

    screen.sees(r"I heard: hello \| hello\.")


def test_answers_to_a_review_are_not_among_the_earlier_lines(chat):
    screen = chat("helper")
    screen.types("pay")
    screen.sees(r"Run it\? \[y\]es, \[n\]o, \[e\]dit: ")
    screen.types("n")
    screen.sees("The result: .*rejected")
    screen.sees("you> ")
    screen.types("\x1b[A")

    screen.sees("pay asks first")


def test_in_a_pipe_it_names_the_command_for_pipes(run):
    ended = run("chat", "-t", AGENTS, "helper")

    assert ended.code == 2
    assert "`surehand run AGENT PROMPT`" in ended.err


def test_several_agents_have_to_be_told_apart(terminal):
    screen = terminal("chat", "-t", AGENTS)

    screen.sees("There are several agents. Name one of them: helper, walker.")
    assert screen.ends() == 2
