"""`surehand show` and `surehand cancel`."""

import getpass
import json
import os
import sqlite3
import time

import pytest

MORE = """
import asyncio, os
from surehand import tool

@tool(effects={"write"})
async def die() -> str:
    '''Die before anybody is told.'''
    os._exit(9)

@tool(effects={"write"})
async def stay(file: str) -> str:
    '''Write a file, and stay until it is gone.'''
    open(file, "w").close()
    while os.path.exists(file):
        await asyncio.sleep(0.02)
    return "gone"

pick = tool.client("pick", "Pick a seat.", reply="later", confirm=True)
"""


@pytest.fixture
def more(configured, shop):
    (configured / "more.py").write_text(MORE)
    (configured / "surehand.yaml").write_text(f"tools: [{shop}, more.py]\nstore: calls.db\n")
    return configured


@pytest.fixture
def waiting(run):
    """Makes a call that ends pending; its id."""

    def make(*arguments: str) -> str:
        ran = run("call", *arguments)
        assert ran.code == 3
        return ran.lines[0]["call_id"]

    return make


def rows(sql: str) -> list[tuple[str, ...]]:
    database = sqlite3.connect("calls.db")
    found = database.execute(sql).fetchall()
    database.close()
    return found


def test_show_prints_the_question_of_a_pending_call(run, configured, waiting):
    call_id = waiting("pay", "amount=3", "to=Bob", "--user", "ada")

    ran = run("show", call_id)
    [told] = ran.lines

    assert ran.code == 0
    assert (told["call_id"], told["tool"], told["state"], told["user"]) == (call_id, "pay", "waiting", "ada")
    assert (told["arguments"], told["round"]) == ({"amount": 3, "to": "Bob"}, 1)
    assert (told["outcome"]["status"], told["outcome"]["message"]) == ("pending", "Pay 3.0 to Bob?")
    assert told["outcome"]["request"]["preview"] == {"left": 97.0}
    assert [(each["kind"], each["status"]) for each in told["journal"]] == [("pending", "approval")]


def test_a_call_is_shown_with_who_answered_it(terminal, run, configured, waiting):
    call_id = waiting("pay", "amount=3", "to=Bob")
    run("approve", call_id, "--by", "Grace")

    [told] = run("show", call_id).lines
    screen = terminal("show", call_id)

    screen.sees(r"\d s ago: pending \(approval\) *\n +\d+ s ago: settled \(approve\) by Grace *\n")
    assert screen.ends() == 0
    assert [each["by"] for each in told["journal"]] == [None, "Grace", None]


def test_of_several_answers_each_is_shown_with_who_gave_it(run, configured, waiting):
    (configured / "seats.py").write_text(
        "from surehand import tool\npick = tool.client('pick', 'Pick a seat.', reply='wait', confirm=True)\n"
    )
    here = ("-t", "seats.py", "--store", "calls.db")
    call_id = waiting("pick", *here)
    run("approve", call_id, "--by", "Grace", *here)
    run("settle", call_id, "7C", "--round", "2", "--by", "Ada", *here)

    assert answerers(run, call_id) == ["Grace", "Ada"]
    database = sqlite3.connect("calls.db")
    with database:  # as lines are forgotten: the oldest first
        database.execute("DELETE FROM journal WHERE id <= (SELECT min(id) FROM journal WHERE kind = 'settled')")
    database.close()
    assert answerers(run, call_id) == ["Ada"]


def answerers(run, call_id: str) -> list[str]:
    [told] = run("show", call_id).lines
    return [each["by"] for each in told["journal"] if each["kind"] == "settled"]


def test_show_prints_the_outcome_of_an_ended_call(run, configured, waiting):
    call_id = waiting("pay", "amount=3", "to=Bob")
    run("approve", call_id)

    [told] = run("show", call_id).lines

    assert (told["state"], told["round"], told["outcome"]["data"]) == ("ended", None, "Paid 3 to Bob.")
    assert [each["kind"] for each in told["journal"]] == ["pending", "settled", "ended"]
    assert told["created_at"] <= told["changed_at"]


def test_show_prints_the_journal_of_a_read_only_call(run, configured):
    [done] = run("call", "add", "a=1").lines

    [told] = run("show", done["call_id"]).lines

    assert (told["tool"], told["state"]) == ("add", None)
    assert [(each["kind"], each["status"]) for each in told["journal"]] == [("ended", "ok")]


@pytest.mark.parametrize("call_id", ["nobody", "", "\x1b[2J", "\udcff", "x" * 10_000])
@pytest.mark.parametrize("verb", ["show", "cancel"])
def test_an_unknown_call_ends_with_5(run, configured, waiting, verb, call_id):
    waiting("sign")

    ran = run(verb, call_id)

    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith("error: The store has no call ")
    assert len(ran.err) < 500
    assert "\x1b" not in ran.err


def test_a_pending_call_is_cancelled(run, configured, waiting):
    call_id = waiting("pay", "amount=3", "to=Bob")

    ran, again = run("cancel", call_id, "--by", "Grace"), run("cancel", call_id)

    assert (ran.code, ran.lines) == (0, [{"call_id": call_id, "tool": "pay", "cancelled": True}])
    assert (again.code, again.lines) == (0, ran.lines)
    assert run("approve", call_id).lines[0]["code"] == "conflict"
    assert run("show", call_id).lines[0]["outcome"]["code"] == "cancelled"
    assert run("pending").lines == []
    assert rows("SELECT by_whom, detail FROM audit WHERE kind = 'answer'")[0][0] == "Grace"


def test_the_audit_names_the_person_who_cancelled(run, configured, waiting):
    run("cancel", waiting("sign"))

    assert rows("SELECT by_whom FROM audit WHERE kind = 'answer'") == [(getpass.getuser(),)]


def test_an_answered_call_that_has_not_started_is_cancelled(run, configured, waiting):
    call_id = waiting("pay", "amount=3", "to=Bob")
    (configured / "surehand.yaml").unlink()
    assert run("approve", call_id, "--store", "calls.db").code == 3

    assert run("cancel", call_id, "--store", "calls.db").code == 0
    assert run("show", call_id, "--store", "calls.db").lines[0]["outcome"]["code"] == "cancelled"


def test_a_call_that_has_ended_is_not_cancelled(run, configured, waiting):
    call_id = waiting("pay", "amount=3", "to=Bob")
    run("approve", call_id)

    ran = run("cancel", call_id)

    assert (ran.code, ran.err) == (1, f"error: Call {call_id} has already ended.\n")
    assert run("show", call_id).lines[0]["outcome"]["data"] == "Paid 3 to Bob."


def test_a_call_that_runs_elsewhere_is_shown_and_left_alone(run, more, fast_command):
    import subprocess

    command = [*fast_command, "call", "stay", "file=here", "--yes"]
    with subprocess.Popen(command, cwd=more, stdout=subprocess.PIPE, text=True) as process:
        while not (more / "here").exists():
            assert process.poll() is None
            time.sleep(0.01)
        [(call_id,)] = rows("SELECT call_id FROM ledger WHERE state = 'running'")
        [told] = run("show", call_id).lines
        cancelled = run("cancel", call_id)
        os.remove(more / "here")
        out, _ = process.communicate()

    assert (told["tool"], told["state"], told["outcome"]) == ("stay", "running", None)
    assert (cancelled.code, "is running: only the process that runs it can stop it" in cancelled.err) == (1, True)
    assert json.loads(out)["data"] == "gone"


def test_a_call_with_an_unknown_effect_is_not_cancelled(piped, run, more, terminal):
    [pending] = piped("call", "die").lines
    call_id = pending["call_id"]
    assert piped("approve", call_id).code == 9

    [told] = run("show", call_id).lines
    cancelled = run("cancel", call_id)
    screen = terminal("show", call_id)

    assert (told["state"], told["round"], told["outcome"]["code"]) == ("unknown", 2, "unknown_effect")
    assert cancelled.code == 1
    assert cancelled.err.startswith(f"error: It is unknown whether call {call_id} took effect.")
    screen.sees(rf"  surehand settle {call_id} --round 2 ANSWER\n")
    assert screen.ends() == 0
    assert run("settle", call_id, "It did.", "--round", "2").code == 0


def test_a_person_sees_everything_of_a_call_and_how_to_answer_it(terminal, run, more, waiting):
    call_id = waiting("pick", "--user", "a\x1b[2Jda")

    screen = terminal("show", call_id)
    screen.sees(rf"call id +{call_id} *\ntool +pick *\nuser +a\\u001b\[2Jda *\nstate +waiting *\nround +1 *\n")
    screen.sees(r"started +\d+ s ago *\nchanged +\d+ s ago *\njournal +\d+ s ago: pending \(approval\) *\n{}\n")
    screen.sees(rf"pending \(approval\): .*\n.*\n  surehand approve {call_id}\n  surehand reject {call_id}\n")
    assert screen.ends() == 0

    screen = terminal("cancel", call_id)
    screen.sees(r"Cancelled: pick does not run\.\n")
    assert screen.ends() == 0

    screen = terminal("show", call_id)
    screen.sees(r"state +ended *\n")
    screen.sees(r"failed \(cancelled\): the call was cancelled while it waited\.\n")
    assert screen.ends() == 0
