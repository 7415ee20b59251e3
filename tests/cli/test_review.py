"""`approve --all`, and `approve` without an id: going through what waits; editing arguments in an editor."""

import json
import shlex
import sys

import pytest

EDITOR = """
import json, sys
path = sys.argv[-1]
arguments = json.load(open(path))
arguments.update(json.loads({change!r}))
json.dump(arguments, open(path, "w"))
"""


@pytest.fixture
def pending(run, configured):
    """Makes calls that wait; their ids."""

    def make(*amounts: int) -> list[str]:
        return [run("call", "pay", f"amount={amount}", "to=Bob").lines[0]["call_id"] for amount in amounts]

    return make


@pytest.fixture
def editor(tmp_path):
    """Makes an editor that changes the arguments and saves them; its command."""

    def make(**change: object) -> str:
        script = tmp_path / "editor.py"
        script.write_text(EDITOR.format(change=json.dumps(change)))
        return shlex.join([sys.executable, str(script)])

    return make


def test_approve_all_approves_every_call_that_waits_for_an_approval(run, pending):
    ids = pending(1, 2, 3)
    signature = run("call", "sign").lines[0]["call_id"]

    ran = run("approve", "--all", "--by", "Grace")

    assert (ran.code, [line["call_id"] for line in ran.lines]) == (0, ids)
    assert [line["data"] for line in ran.lines] == ["Paid 1 to Bob.", "Paid 2 to Bob.", "Paid 3 to Bob."]
    assert [line["call_id"] for line in run("pending").lines] == [signature]
    assert {row["by"] for row in run("audit", "--tool", "pay").lines if row["kind"] == "answer"} == {"Grace"}


def test_approve_all_of_nothing_says_so(run, configured, pending):
    pending(1)
    run("approve", "--all")

    ran = run("approve", "--all")

    assert (ran.code, ran.out, ran.err) == (0, "", "No calls are pending.\n")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["c1", "--all"], "Give CALL_ID or --all, not both."),
        (["--all", "--arguments", "{}"], "--arguments and --round are for one call."),
        ([], "Give CALL_ID or --all."),
    ],
)
def test_approve_needs_one_way_to_name_what_it_approves(run, pending, words, problem):
    pending(1)

    ran = run("approve", *words)

    assert ran.code == 2
    assert problem in ran.err


def test_approve_without_an_id_goes_through_what_waits_one_by_one(terminal, run, pending):
    ids = pending(1, 2, 3)

    screen = terminal("approve")
    screen.sees(rf"1 of 3: pay \({ids[0]}\)\npay asks first\nPay 1.0 to Bob\?\n")
    screen.sees(r"Run it\? \[y\]es, \[n\]o, \[e\]dit, \[s\]kip: ")
    screen.types("y")
    screen.sees("Paid 1 to Bob.")
    screen.sees(r"2 of 3: pay .*\n")
    screen.sees("kip: ")
    screen.types("perhaps")
    screen.sees(r"Answer y, n, e or s\.")
    screen.sees("kip: ")
    screen.types("n")
    screen.sees("rejected: the call did not run, and has ended.")
    screen.sees("3 of 3: pay ")
    screen.sees("kip: ")
    screen.types("s")
    screen.sees("1 call is still pending.")

    assert screen.ends() == 3
    assert [line["call_id"] for line in run("pending").lines] == [ids[2]]


def test_the_end_of_input_leaves_the_rest_pending(terminal, run, pending):
    pending(1, 2)

    screen = terminal("approve")
    screen.sees("kip: ")
    screen.types("\x04", enter=False)
    screen.sees("2 calls are still pending.")

    assert screen.ends() == 3
    assert len(run("pending").lines) == 2


def test_a_call_that_waits_for_a_result_is_answered_on_the_way(terminal, run, configured):
    run("call", "sign")

    screen = terminal("approve")
    screen.sees(r"1 of 1: sign ")
    screen.sees(r"Answer \(JSON or text\): ")
    screen.types("Ada")
    screen.sees("Ada")

    assert screen.ends() == 0
    assert run("pending").lines == []


def test_e_opens_the_editor_on_the_arguments(terminal, shop, editor):
    screen = terminal("call", "-t", shop, "pay", '{"amount": 3, "to": "Bob"}', EDITOR=editor(amount=4, to="Ada"))

    screen.sees(r"\[e\]dit: ")
    screen.types("e")
    screen.sees(r'"amount": 4,\n  "to": "Ada"')
    screen.sees(r"\[e\]dit: ")
    screen.types("y")
    screen.sees("Paid 4 to Ada.")
    assert screen.ends() == 0


def test_arguments_that_do_not_fit_can_be_edited_again(terminal, shop, editor):
    screen = terminal("call", "-t", shop, "pay", '{"amount": 3, "to": "Bob"}', VISUAL=editor(amount="many"))

    screen.sees(r"\[e\]dit: ")
    screen.types("e")
    screen.sees("The arguments are invalid: ")
    screen.sees(r"Edit again\? \[Y\]es, \[n\]o: ")
    screen.types("n")
    screen.sees(r'"amount": 3')
    screen.sees(r"\[e\]dit: ")
    screen.types("n")
    assert screen.ends() == 4


def test_an_editor_that_cannot_be_started_keeps_the_arguments(terminal, shop):
    screen = terminal("call", "-t", shop, "pay", '{"amount": 3, "to": "Bob"}', EDITOR="no-such-editor")

    screen.sees(r"\[e\]dit: ")
    screen.types("e")
    screen.sees("no-such-editor: Editing failed")
    screen.sees(r'"amount": 3')
    screen.sees(r"\[e\]dit: ")
    screen.types("y")
    screen.sees("Paid 3 to Bob.")
    assert screen.ends() == 0
