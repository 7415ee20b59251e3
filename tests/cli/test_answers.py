"""Pending calls are listed, approved, rejected and settled by another process."""

import asyncio
import getpass
import json
import re
import sqlite3

import pytest

from surehand import Store
from surehand.assemble import assemble, load_tool_source
from surehand.store.migrations import MIGRATION_FILES

PAY = ("call", "pay", "amount=3", "to=Bob")
MORE = """
import asyncio, os
from pathlib import Path
from surehand import Context, tool

@tool(effects={"write"})
async def write(name: str, seconds: float = 0.0) -> str:
    '''Write a file, after a while.'''
    Path(f"{name}.begun").touch()
    await asyncio.sleep(seconds)
    Path(name).write_text("written")
    return f"Wrote {name}."

@tool(effects={"write"})
async def die(name: str) -> str:
    '''Write a file, and die before anybody is told.'''
    Path(name).write_text("written")
    os._exit(9)

@tool(effects={"write"})
async def commission(name: str, ctx: Context) -> str:
    '''Have a file written by somebody who asks first, too.'''
    Path(f"{name}.begun").touch()
    return (await ctx.call("write", {"name": name})).text

@tool(effects={"read"})
async def nap(until: str) -> str:
    '''Sleep until there is a file.'''
    while not Path(until).exists():
        await asyncio.sleep(0.01)
    return "rested"

@tool(effects={"write"}, max_bytes=200)
async def much() -> list[str]:
    '''Give more than a model is shown.'''
    return [f"row {number}" for number in range(100)]

pick = tool.client("pick", "Pick a seat.", reply="wait", confirm=True)
"""


@pytest.fixture
def more(configured, shop):
    """Further tools, beside those of the shop."""
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


async def state_in(address, call_id):
    async with Store.open(str(address)) as store:
        held = await store.pending.find(call_id)
        return held.call.state


def state_of(call_id):
    return asyncio.run(state_in("calls.db", call_id))


def test_a_call_is_approved_by_another_process_than_the_one_that_made_it(piped, configured):
    [pending] = piped(*PAY).lines
    [listed] = piped("pending").lines
    approved = piped("approve", pending["call_id"])
    again = piped("approve", pending["call_id"])

    assert (listed["call_id"], listed["arguments"]) == (pending["call_id"], {"amount": 3, "to": "Bob"})
    assert listed["request"]["preview"] == {"left": 97}
    assert (approved.code, approved.lines[0]["data"], approved.err) == (0, "Paid 3 to Bob.", "")
    assert (again.code, again.lines[0]["data"], again.lines[0]["call_id"]) == (0, "Paid 3 to Bob.", pending["call_id"])
    assert piped("pending").err == "No calls are pending.\n"


def test_a_rejected_call_ends_with_the_reason(run, configured, waiting):
    call_id = waiting("pay", "amount=3", "to=Bob")

    ran = run("reject", call_id, "--reason", "too dear")

    assert (ran.code, ran.lines[0]["code"]) == (4, "rejected")
    assert "rejected by the user: too dear" in ran.lines[0]["text"]
    assert (run("reject", call_id).code, run("approve", call_id).code) == (4, 1)
    assert run("approve", call_id).lines[0]["code"] == "conflict"


def test_invalid_edited_arguments_leave_the_call_pending(run, configured, waiting):
    call_id = waiting("pay", "amount=3", "to=Bob")

    bad = run("approve", call_id, "--arguments", '{"amount": "much", "to": "Ada"}')
    assert (bad.code, bad.lines[0]["code"]) == (1, "invalid_arguments")
    assert run("pending").lines[0]["call_id"] == call_id

    assert run("approve", call_id, "--arguments", '{"amount": 5, "to": "Ada"}').lines[0]["data"] == "Paid 5 to Ada."


@pytest.mark.parametrize("given", ["[1]", "{", '{"a": 1, "a": 2}', "5"])
def test_edited_arguments_must_be_a_json_object(run, configured, waiting, given):
    ran = run("approve", waiting("pay", "amount=3", "to=Bob"), "--arguments", given)

    assert (ran.code, ran.out) == (2, "")
    assert "--arguments" in ran.err


def test_always_gives_a_standing_approval(run, configured, waiting):
    run("approve", waiting("pay", "amount=3", "to=Bob"), "--always")

    assert run(*PAY).lines[0]["data"] == "Paid 3 to Bob."


def test_a_standing_approval_counts_for_the_user_and_session_of_the_call(run, configured, waiting):
    call_id = waiting("pay", "amount=3", "to=Bob", "--user", "ada", "--session", "s1")
    [wait] = run("pending").lines
    assert (wait["user"], wait["session"]) == ("ada", "s1")

    run("approve", call_id, "--always")

    assert run(*PAY, "--user", "ada", "--session", "s1").lines[0]["data"] == "Paid 3 to Bob."
    assert run(*PAY, "--user", "ada", "--session", "s2").lines[0]["status"] == "pending"
    assert run(*PAY, "--user", "eve", "--session", "s1").lines[0]["status"] == "pending"


@pytest.mark.parametrize(
    ("answer", "data"),
    [(["Ada L."], "Ada L."), (['{"by": "Ada"}'], {"by": "Ada"}), (["007"], "007"), (["NaN"], "NaN"), ([], None),
     (["-"], ["from stdin"])],
)  # fmt: skip
def test_an_answer_is_json_or_text(run, configured, waiting, answer, data):
    ran = run("settle", waiting("sign"), *answer, stdin='["from stdin"]')

    assert (ran.code, ran.lines[0]["data"]) == (0, data)


def test_settle_can_report_a_failure(run, configured, waiting):
    ran = run("settle", waiting("sign"), "--failed", "No pen.")

    assert (ran.code, ran.lines[0]["code"], ran.lines[0]["text"]) == (1, "failed", "(tool failed: No pen.)")


@pytest.mark.parametrize("answer", [["yes", "--failed", "no"], ['{"a": 1, "a": 2}']])
def test_an_answer_together_with_failed_is_wrong_usage(run, configured, waiting, answer):
    call_id = waiting("sign")

    assert run("settle", call_id, *answer).code == 2
    assert run("pending").lines[0]["call_id"] == call_id


def test_an_answer_that_does_not_fit_the_question_is_refused(run, configured, waiting):
    ran = run("approve", waiting("sign"))

    assert (ran.code, ran.lines[0]["code"]) == (1, "conflict")
    assert "waits for result: settle or reject it, approve does not fit" in ran.lines[0]["text"]


@pytest.mark.parametrize("verb", ["approve", "reject", "settle"])
def test_an_unknown_call_ends_with_5(run, configured, waiting, verb):
    waiting("sign")

    ran = run(verb, "nobody")

    assert (ran.code, ran.lines[0]["code"], ran.lines[0]["call_id"]) == (5, "not_found", "nobody")
    assert ran.err == "`surehand pending` lists the calls that wait.\n"
    assert run("pending", "nobody").code == 5
    assert run("pending", "nobody").err == "error: No call nobody is pending.\n"


@pytest.mark.parametrize("command", [["pending"], ["approve", "x"], ["reject", "x"], ["settle", "x"]])
def test_without_a_store_the_error_says_how_to_add_one(run, tmp_path, shop, command):
    assert "Add `store: surehand.db` to a surehand.yaml" in (ran := run(*command)).err
    assert ran.code == 2

    (tmp_path / "surehand.yaml").write_text(f"tools: [{shop}]\n")
    assert "Add `store: surehand.db` to surehand.yaml, or name one with --store" in run(*command).err

    (tmp_path / "surehand.yaml").write_text(f"tools: [{shop}]\nstore: calls.db\n")
    ran = run(*command)
    assert (ran.code, ran.err.startswith("error: The store calls.db does not exist.")) == (2, True)
    assert not (tmp_path / "calls.db").exists()


def test_several_ids_are_approved_one_after_the_other(run, configured, waiting):
    first = waiting("pay", "amount=1", "to=Bob")
    second = waiting("pay", "amount=2", "to=Bob")

    ran = run("approve", second, first, second)

    assert (ran.code, [line["data"] for line in ran.lines]) == (0, ["Paid 2 to Bob.", "Paid 1 to Bob."])
    assert run("approve", first, "nobody").code == 5


def test_several_ids_are_rejected_with_one_reason(run, configured, waiting):
    first = waiting("pay", "amount=1", "to=Bob")
    second = waiting("pay", "amount=2", "to=Bob")

    ran = run("reject", first, second, "--reason", "too dear")

    assert (ran.code, [line["code"] for line in ran.lines]) == (4, ["rejected"] * 2)
    assert all("too dear" in line["text"] for line in ran.lines)
    assert run("reject", first, "nobody").code == 5


def test_arguments_and_round_are_for_one_call_only(run, configured):
    assert "are for one call" in run("approve", "a", "b", "--round", "2").err
    assert "are for one call" in run("approve", "a", "b", "--arguments", "{}").err
    assert "--round is for one call" in run("reject", "a", "b", "--round", "2").err


def test_a_repeated_approval_in_a_pipe_names_the_tool_and_when_the_call_started(run, configured, waiting):
    call_id = waiting("pay", "amount=3", "to=Bob")

    first, again = run("approve", call_id).lines[0], run("approve", call_id).lines[0]

    assert again["meta"]["tool"] == first["meta"]["tool"] == "pay"
    assert again["meta"]["started_at"] > 0


def test_who_answered_is_in_the_audit(run, configured, waiting):
    run("approve", waiting("pay", "amount=3", "to=Bob"), "--by", "Grace")
    run("reject", waiting("pay", "amount=3", "to=Bob"))

    database = sqlite3.connect("calls.db")
    found = database.execute("SELECT by_whom FROM audit WHERE kind = 'answer' ORDER BY id").fetchall()
    database.close()

    assert found == [("Grace",), (getpass.getuser(),)]


def test_an_approved_call_is_resumed_by_a_process_with_its_tool(run, tmp_path, waiting, shop):
    (tmp_path / "surehand.yaml").write_text(f"tools: [{shop}]\nstore: calls.db\n")
    call_id = waiting("pay", "amount=3", "to=Bob")
    (tmp_path / "surehand.yaml").unlink()

    ran = run("approve", call_id, "--store", "calls.db")

    assert (ran.code, ran.lines[0]["status"], ran.lines[0]["waiting_for"]) == (3, "pending", "result")
    assert state_of(call_id) == "ready"

    async def elsewhere() -> str:
        async with assemble(None, load_tool_source(shop), store="calls.db"):
            for _ in range(2_000):
                if (state := await state_in("calls.db", call_id)) == "ended":
                    break
                await asyncio.sleep(0.01)
            return state

    assert asyncio.run(elsewhere()) == "ended"
    assert run("approve", call_id, "--store", "calls.db").lines[0]["data"] == "Paid 3 to Bob."


def test_listing_tools_resumes_no_calls(run, more, waiting):
    call_id = waiting("write", "name=a.txt")
    assert run("approve", call_id, "--store", "calls.db", "-t", "more.py:nap").code == 3

    run("tools")
    run("describe")
    run("pending")

    assert state_of(call_id) == "ready"
    assert not (more / "a.txt").exists()


def test_a_command_waits_for_another_call_that_it_resumed(run, more, waiting):
    call_id = waiting("write", "name=a.txt", "seconds=0.6")
    run("approve", call_id, "--store", "calls.db", "-t", "more.py:nap")

    ran = run("call", "nap", "until=a.txt.begun")

    assert (ran.code, ran.lines[0]["data"]) == (0, "rested")
    assert (more / "a.txt").read_text() == "written"
    assert state_of(call_id) == "ended"


def test_the_option_yes_does_not_answer_other_calls(run, more, waiting):
    call_id = waiting("commission", "name=a.txt")
    run("approve", call_id, "--store", "calls.db", "-t", "more.py:nap")

    assert run("call", "nap", "until=a.txt.begun", "--yes").code == 0

    assert [wait["tool"] for wait in run("pending").lines] == ["write"]
    assert not (more / "a.txt").exists()


def test_a_call_whose_process_died_is_pending(piped, more):
    assert piped("call", "die", "name=a.txt", "--yes").code == 9

    [wait] = piped("pending").lines
    assert (wait["tool"], wait["waiting_for"], wait["request"]) == ("die", "result", {"unknown_effect": True})
    assert "not known whether die has happened" in wait["message"]

    settled = piped("settle", wait["call_id"], "It was written.")
    assert (settled.code, settled.lines[0]["data"]) == (0, "It was written.")


def test_approve_returns_when_a_client_tool_waits_for_its_result(piped, more):
    [pending] = piped("call", "pick").lines

    approved = piped("approve", pending["call_id"])
    assert (approved.code, approved.lines[0]["waiting_for"], approved.lines[0]["round"]) == (3, "result", 2)

    assert piped("settle", pending["call_id"], "7C", "--round", "2").lines[0]["data"] == "7C"


def test_an_answer_to_one_question_does_not_count_for_the_next(run, more, waiting):
    call_id = waiting("pick")
    run("approve", call_id)
    [wait] = run("pending").lines

    again = run("approve", call_id)
    early = run("settle", call_id, "7C")
    rejected = run("reject", call_id)
    later = run("settle", call_id, "7C", "--round", "3")

    assert (wait["call_id"], wait["waiting_for"], wait["round"]) == (call_id, "result", 2)
    assert (again.code, again.lines[0]["waiting_for"], again.lines[0]["round"]) == (3, "result", 2)
    assert [(ran.code, ran.lines[0]["code"]) for ran in (early, rejected, later)] == [(1, "conflict")] * 3
    assert run("pending").lines == [wait]
    assert run("settle", call_id, "7C", "--round", "2").lines[0]["data"] == "7C"
    assert (run("settle", call_id, "7C", "--round", "2").code, run("settle", call_id, "7D", "--round", "2").code) == (
        0,
        1,
    )
    assert run("approve", call_id).lines[0]["data"] == "7C"  # the same answer to the first question changes nothing


@pytest.mark.parametrize("round", ["0", "-1", "one"])
@pytest.mark.parametrize("verb", ["approve", "reject", "settle"])
def test_questions_are_counted_from_one(run, configured, verb, round):
    assert run(verb, "x", "--round", round).code == 2


def test_questions_of_a_nested_call_continue_the_rounds_of_its_caller(run, configured, waiting):
    call_id = waiting("order", "--yes")
    [wait] = run("pending").lines

    assert (wait["tool"], wait["round"]) == ("sign", 1)
    assert run("settle", call_id, "Ada", "--round", "2").lines[0]["code"] == "conflict"
    assert run("settle", call_id, "Ada").lines[0]["data"] == "Ada"


def test_the_list_shows_the_round_with_the_call_id(terminal, run, more, waiting):
    call_id = waiting("pick")
    run("approve", call_id)

    screen = terminal("pending")
    screen.sees(rf"{call_id[:16]} --round 2 +pick +result")
    assert screen.ends() == 0

    screen = terminal("pending", call_id)
    screen.sees(r"round +2 *\n")
    assert screen.ends() == 0

    screen = terminal("reject", call_id)
    screen.sees(rf"failed \(conflict\): .*\n`surehand pending {call_id}` shows it; answer it with --round 2\.\n")
    assert screen.ends() == 1


def test_the_command_that_shows_the_open_question_works_as_it_is_printed(terminal, run, more, waiting):
    call_id = waiting("pick", "-t", "more.py", "--store", "calls.db")
    run("approve", call_id, "-t", "more.py", "--store", "calls.db")

    screen = terminal("settle", call_id, "1A", "-t", "more.py", "--store", "calls.db")
    printed = screen.sees(r"`surehand [^`]+` shows it").split("`")[1]
    assert screen.ends() == 1

    assert printed == f"surehand pending --store calls.db {call_id}"
    assert run(*printed.split()[1:]).lines[0]["round"] == 2


def test_an_answer_to_a_later_round_names_the_open_round(terminal, run, configured, waiting):
    call_id = waiting("pay", "amount=3", "to=Bob")
    early = run("approve", call_id, "--round", "2")

    assert (early.code, early.lines[0]["code"]) == (1, "conflict")
    assert early.lines[0]["text"] == "(tool failed: There is no question 2 yet; question 1 is open.)"
    screen = terminal("approve", call_id, "--round", "2")
    screen.sees(r"is open\.\n`surehand pending \w+` shows it; answer it with --round 1\.")
    assert screen.ends() == 1
    assert len(run("pending").lines) == 1


def test_a_store_on_the_command_line_replaces_the_configured_one(run, configured, waiting, shop):
    call_id = waiting("-t", shop, "--store", "other.db", "pay", "amount=1", "to=Ada")

    assert not (configured / "calls.db").exists()
    assert run("pending", "--store", "other.db").lines[0]["call_id"] == call_id


def test_the_list_is_a_table_with_everything_below_each_row(terminal, run, configured, waiting):
    long = "x" * 3000
    first = waiting("pay", json.dumps({"amount": 3, "to": "Bob", "note": "a\x1b[2J\u202eb\u00e4"}))
    second = waiting("pay", json.dumps({"amount": 4, "to": "Ada", "note": long}))

    screen = terminal("pending")

    screen.sees(r"Call id +Tool +Waits for +Since +Expires\n")
    screen.sees(rf"{first[:16]} +pay +approval +\d+ s ago +in 7 d\n  Pay 3.0 to Bob\?\n")
    screen.sees(r'  {"amount": 3, "to": "Bob", "note": "a\\u001b\[2J\\u202ebä"}\n')
    screen.sees(rf"{second[:16]} +pay")
    cut = len(json.dumps({"amount": 4, "to": "Ada", "note": long})) - 2000
    screen.sees(rf"x \.\.\. and {cut:,} bytes more: `surehand pending {second}` shows all\n")
    assert screen.ends() == 0
    assert "\x1b[36m" in screen.raw

    screen = terminal("pending", second)
    screen.sees(f'"note": "{long}"')
    screen.sees(r'preview:\n{\n  "left": 96.0\n}')
    assert screen.ends() == 0


def test_the_list_has_a_user_column_if_any_call_has_a_user(terminal, run, configured, waiting):
    anyone = waiting("pay", "amount=3", "to=Bob")
    hers = waiting("pay", "amount=4", "to=Bob", "--user", "ada\x1b[2J")

    screen = terminal("pending")

    screen.sees(r"Expires +User\n")
    screen.sees(rf"{anyone[:16]} .* in 7 d +-\n")
    screen.sees(rf"{hers[:16]} .* in 7 d +ada\\u001b\[2J\n")
    assert screen.ends() == 0


def test_a_pending_call_shows_its_diff_preview(terminal, run, configured, waiting):
    screen = terminal("pending", waiting("paint", "text=Closed"))

    screen.sees(r"preview:\nsign.txt\n--- a/sign.txt\n\+\+\+ b/sign.txt\n@@ .* @@\n Shop\n--- open\n\+Closed\n")
    assert screen.ends() == 0
    assert "\x1b[32m+Closed" in screen.raw


def test_a_pending_call_tells_a_person_how_to_answer_it_later(terminal, configured):
    screen = terminal("call", "pay", "amount=3", "to=Bob")
    screen.sees("dit: ")
    screen.types("\x04", enter=False)
    screen.sees(r"pending \(approval\): Pay 3.0 to Bob\?\nNothing ran. Answer it later with one of:\n")
    command = screen.sees(r"surehand approve \w+\n").split()
    screen.sees(r"surehand reject \w+\n")
    assert screen.ends() == 3

    screen = terminal(*command[1:])
    assert screen.ends() == 0
    assert screen.left == "Paid 3 to Bob.\n"


def test_the_commands_to_answer_with_repeat_the_options(terminal, tmp_path, shop):
    (tmp_path / "other.yaml").write_text(f"tools: [{shop}]\n")
    screen = terminal("call", "sign", "-c", "other.yaml", "--store", "my calls.db", "--json")
    assert screen.ends() == 3

    screen = terminal("call", "sign", "-c", "other.yaml", "--store", "my calls.db")
    screen.sees("Answer ")
    screen.types("\x04", enter=False)
    screen.sees(r"  surehand settle -c other.yaml --store 'my calls.db' \w+ ANSWER\n")
    assert screen.ends() == 3


def test_a_person_sees_the_whole_of_what_an_approved_call_gave(terminal, run, more, waiting):
    screen = terminal("approve", waiting("much"))

    assert screen.ends() == 0
    assert len(re.findall(r"row \d+", screen.text)) == 100
    assert "tool_output" not in screen.text


def test_the_result_of_an_answer_is_printed_for_a_person(terminal, run, more, waiting):
    call_id = waiting("pay", "amount=3", "to=Bob")
    screen = terminal("approve", call_id, "--arguments", '{"amount": "much"}')
    screen.sees(r"failed \(invalid_arguments\): .*\nThe call is still pending\.\n")
    assert screen.ends() == 1

    screen = terminal("reject", call_id, "--reason", "no")
    screen.sees(r"rejected: the call did not run, and has ended\.\n")
    assert screen.ends() == 4

    screen = terminal("approve", waiting("pick"))
    screen.sees(r"pending \(result\): .*\nAnswer it later with:\n")
    screen.sees(r"  surehand settle \w+ --round 2 ANSWER\n")
    assert screen.ends() == 3

    screen = terminal("approve", "--store", "calls.db", "-t", "more.py", waiting("pay", "amount=3", "to=Bob"))
    screen.sees(r"Approved, but pay is not here now\.\nA process on this store that has the tool resumes it\.\n")
    assert screen.ends() == 3


def test_it_works_on_postgresql(run, tmp_path, shop, postgres_address, monkeypatch):
    (tmp_path / "surehand.yaml").write_text(f"tools: [{shop}]\nstore: ${{STORE}}\n")
    monkeypatch.setenv("STORE", postgres_address)
    assert run("store", "migrate").lines[0]["applied"] == len(MIGRATION_FILES)

    [pending] = run(*PAY).lines
    assert [wait["call_id"] for wait in run("pending").lines] == [pending["call_id"]]
    approved = run("approve", pending["call_id"])

    assert (approved.code, approved.lines[0]["data"]) == (0, "Paid 3 to Bob.")
    assert run("store", "info").lines[0]["calls"] == {"ended": 1}
    assert run("store", "prune", "--calls", "0s", "--vacuum").lines[0]["forgotten"]["calls"] == 1
    assert run("audit", "verify").lines[0]["sound"] is True


BEHIND = """
from surehand import tool

@tool(effects={"write"})
async def pay(amount: int) -> str:
    '''Pay somebody.'''
    return f"Paid {amount}."
"""


@pytest.fixture
def proxied(tmp_path, fast_command):
    """Tools behind another surehand, which asks before it pays; this one lets everything through."""
    (tmp_path / "behind.py").write_text(BEHIND)
    command = [*fast_command, "mcp", "-t", str(tmp_path / "behind.py"), "--store", str(tmp_path / "behind.db")]
    server = {"command": command[0], "args": command[1:], "effects": ["write"]}
    (tmp_path / "surehand.yaml").write_text(
        json.dumps({
            "mcp_servers": {"shop": server}, "store": "calls.db", "policy": [{"tools": "*", "decision": "allow"}],
        })
    )  # fmt: skip
    return tmp_path


def test_an_approval_of_a_server_is_given_once(run, proxied, waiting):
    ran = run("approve", waiting("shop__pay", "amount=3"))

    assert (ran.code, ran.lines[0]["text"]) == (0, "Paid 3.")
    assert run("call", "shop__pay", "amount=3").code == 3


def test_an_approval_of_a_server_can_be_given_always(run, proxied, waiting):
    assert run("approve", waiting("shop__pay", "amount=3"), "--always").code == 0

    assert run("call", "shop__pay", "amount=4").lines[0]["text"] == "Paid 4."


def test_an_approval_of_a_server_can_be_rejected(run, proxied, waiting):
    ran = run("reject", waiting("shop__pay", "amount=3"))

    assert (ran.code, ran.lines[0]["status"]) == (4, "failed")
    assert "rejected by the user" in ran.lines[0]["text"]


def test_rejecting_an_approval_of_a_server_prints_the_servers_message(terminal, run, proxied, waiting):
    screen = terminal("reject", waiting("shop__pay", "amount=3"))

    screen.sees(r"rejected: .*rejected by the user")
    assert screen.ends() == 4
