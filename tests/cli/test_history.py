"""Reading what happened: `calls` and `audit` list, filter and show; ids are given by any unique prefix."""

import asyncio
import getpass
import re
import subprocess
import sys
import time

import pytest

from surehand import Policy, Runtime, Store, tool

FILTERS = [
    ([], ["pay", "echo", "echo", "nonesuch"]),
    (["--tool", "echo"], ["echo", "echo"]),
    (["--user", "ada"], ["pay", "echo"]),
    (["--session", "s1"], ["echo", "echo"]),
    (["--user", "ada", "--session", "s1"], ["echo"]),
    (["--limit", "1"], ["pay"]),
    (["--since", "1h"], ["pay", "echo", "echo", "nonesuch"]),
    (["--until", "1h"], []),
    (["--since", "2000-01-01", "--until", "2000-02-01 12:30"], []),
    (["--call", "c3"], ["pay"]),
    (["--call", "c"], None),
]


@tool(effects={"read"})
async def echo(text: str) -> str:
    """Give back a text."""
    return text


@tool(effects={"write"}, confirm=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"Paid {amount}."


@tool(effects={"write"})
async def burn(what: str) -> str:
    """Burn something."""
    return "ashes"


@pytest.fixture
def history(run, tmp_path):
    """A store in which an unknown tool was called, two calls have ended, one waits, and one was denied."""

    async def make() -> None:
        denies = Policy([{"tools": "burn", "decision": "deny"}])
        async with Runtime(echo, pay, burn, policy=denies, store=tmp_path / "calls.db") as runtime:
            await runtime.call("nonesuch", {"text": "sesame"}, call_id="c0")
            for call_id, user in (("c1", "ada"), ("c2", "bob")):
                await runtime.scope(user=user, session="s1").call("echo", {"text": "sesame"}, call_id=call_id)
            await runtime.scope(user="ada", session="s2").call("pay", {"amount": 5}, call_id="c3")

    asyncio.run(make())
    (tmp_path / "surehand.yaml").write_text("store: calls.db\n")
    return tmp_path


@pytest.fixture
def denied(run, tmp_path):
    """A store with one denied call, of ada."""

    async def make() -> None:
        denies = Policy([{"tools": "burn", "decision": "deny"}])
        async with Runtime(burn, policy=denies, store=tmp_path / "calls.db") as runtime:
            await runtime.scope(user="ada", session="s1").call("burn", {"what": "sesame"}, call_id="d1")

    asyncio.run(make())
    (tmp_path / "surehand.yaml").write_text("store: calls.db\n")
    return tmp_path


@pytest.mark.parametrize(("flags", "tools"), FILTERS, ids=str)
def test_calls_are_listed_newest_first_and_filtered(run, history, flags, tools):
    ran = run("calls", *flags)

    if tools is None:
        assert (ran.code, ran.out) == (2, "")
        assert "c is the beginning of several call ids. Give more of it:" in ran.err
        assert "c1 (echo)" in ran.err
        assert "c3 (pay)" in ran.err
    else:
        assert (ran.code, [line["tool"] for line in ran.lines]) == (0, tools)
    assert "sesame" not in ran.out


@pytest.mark.parametrize(
    ("flags", "call_ids"),
    [
        ([], ["c3", "c4", "c5"]),
        (["--user", "ada"], ["c3", "c4"]),
        (["--session", "s2"], ["c3", "c5"]),
        (["--user", "ada", "--session", "s2", "--limit", "1"], ["c3"]),
        (["--user", "eve"], []),
    ],
    ids=str,
)
def test_pending_calls_are_filtered_by_user_and_session(run, history, flags, call_ids):
    async def make() -> None:
        async with Runtime(pay, store=history / "calls.db") as runtime:
            await runtime.scope(user="ada").call("pay", {"amount": 6}, call_id="c4")
            await runtime.scope(user="bob", session="s2").call("pay", {"amount": 7}, call_id="c5")

    asyncio.run(make())

    ran = run("pending", *flags)

    assert [line["call_id"] for line in ran.lines] == call_ids
    assert ran.err == ("" if call_ids else "No pending calls match.\n")


def test_the_next_page_of_pending_calls_keeps_the_filter(run, history):
    async def make() -> None:
        async with Runtime(pay, store=history / "calls.db") as runtime:
            await runtime.scope(user="ada", session="s2").call("pay", {"amount": 6}, call_id="c4")

    asyncio.run(make())

    assert (
        "surehand pending --user ada --session s2 --limit 1 --after "
        in run("pending", "--user", "ada", "--session", "s2", "--limit", "1").err
    )


def test_each_call_is_listed_once_with_how_it_stands(run, history):
    waiting, *_, unknown = run("calls").lines

    assert (waiting["call_id"], waiting["kind"], waiting["status"]) == ("c3", "pending", "approval")
    assert (unknown["tool"], unknown["status"]) == ("nonesuch", "not_found")
    run("reject", "c3", "--reason", "too much")
    assert run("calls", "--call", "c3").lines[0]["status"] == "rejected"


def test_a_call_whose_process_died_is_listed_as_unknown(run, history):
    program = """
import asyncio, os
from surehand import Runtime, tool

@tool(effects={"write"})
async def die() -> str:
    "Die."
    os._exit(9)

async def main():
    async with Runtime(die, store="calls.db") as runtime:
        await runtime.scope(user="ada").call("die")

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", program], cwd=history, check=False)

    newest = run("calls").lines[0]

    assert (newest["tool"], newest["kind"], newest["status"], newest["user"]) == ("die", "unknown", "unknown", "ada")
    assert [line["tool"] for line in run("calls", "--tool", "die").lines] == ["die"]
    assert run("calls", "--user", "bob", "--tool", "die").lines == []


def test_a_call_is_shown_by_a_prefix_of_its_id(run, history):
    first = run("calls", "show", "c3").lines
    assert first == run("calls", "c3").lines == run("show", "c3").lines
    assert (first[0]["call_id"], first[0]["tool"], first[0]["state"]) == ("c3", "pay", "waiting")
    assert run("calls", "nope").code == 5


def test_options_before_a_subcommand_are_refused(run, history):
    ran = run("calls", "--user", "ada", "show", "c3")

    assert ran.code == 2
    assert "Write --user after `calls show`." in ran.err


def test_a_wrong_time_is_explained(run, history):
    ran = run("audit", "--since", "yesteryear")

    assert ran.code == 2
    assert "'yesteryear' is not a time. Write 2h, 2026-01-31 or '2026-01-31 18:30'." in ran.err


def test_the_audit_is_listed_and_filtered(run, history):
    rows = run("audit", "--tool", "pay").lines

    assert [(row["kind"], row["call_id"], row["user"], row["session"]) for row in rows] == [("wait", "c3", "ada", "s2")]
    assert run("audit", "--user", "carol").lines == []
    assert run("audit", "--user", "carol").err == "No audit rows match.\n"
    assert run("audit", "verify").lines[0]["sound"]


def test_denials_are_in_the_audit_with_who_tried_what(run, denied):
    [row] = run("audit").lines

    assert (row["kind"], row["tool"], row["user"], row["session"]) == ("denied", "burn", "ada", "s1")
    assert (row["detail"]["code"], len(row["detail"]["arguments"])) == ("denied", 64)


def test_the_audit_of_a_call_is_shown_oldest_first(run, history):
    run("reject", "c3", "--by", "Grace")

    rows = run("audit", "c3").lines
    assert [(row["kind"], row["by"]) for row in rows] == [("wait", None), ("answer", "Grace"), ("outcome", None)]
    assert run("audit", "show", "c3").lines == rows
    missing = run("audit", "show", "nope")
    assert (missing.code, missing.err) == (5, "error: The audit has no call nope.\n")


def test_the_lists_are_tables_that_fit_80_columns(terminal, history):
    async def add() -> None:
        async with Store.open(history / "calls.db") as store:
            about = {"user": "somebody with a long name", "session": "a very long session"}
            name = "a_namespace_of_some_length__and_a_tool_with_a_long_name"
            await store.write(
                [
                    store.journal.entry_statement("ended", "x" * 30, name, "invalid_arguments", **about),
                    store.audit.row_statement("refused", "x" * 30, name, detail={"code": "limit_exceeded"}, **about),
                ]
            )

    asyncio.run(add())

    for command in (["calls"], ["audit"]):
        screen = terminal(*command, COLUMNS="80")
        assert screen.ends() == 0
        lines = screen.text.splitlines()
        assert max(map(len, lines)) <= 80
        assert "Call id" in lines[0]
        assert "xxxxxxxxxxxxxxxx" in lines[1]


def test_a_person_sees_how_calls_stand(terminal, history):
    screen = terminal("calls")
    screen.sees(r"Call id +Tool +Status +When +Took +User +Session\n")
    screen.sees(r"c3 +pay +pending \(approval\) +\d+ s ago +- +ada +s2\n")
    screen.sees(r"c2 +echo +ok +\d+ s ago +\d+ ms +bob +s1\n")
    assert screen.ends() == 0

    screen = terminal("audit", "show", "c3")
    screen.sees(r"call id  c3\ntool     pay\n\d+ s ago: wait \(approval\) for ada, in session s2\n")
    assert screen.ends() == 0


def test_every_command_that_takes_an_id_takes_a_unique_prefix(run, configured):
    call_id = run("call", "sign").lines[-1]["call_id"]
    assert run("pending", call_id[:14]).lines[0]["call_id"] == call_id
    assert run("show", call_id[:14]).lines[0]["call_id"] == call_id
    settled = run("settle", call_id[:14], "signed")
    assert (settled.code, settled.lines[0]["data"]) == (0, "signed")

    other = run("call", "sign").lines[-1]["call_id"]
    assert run("cancel", other[:14]).lines[0]["call_id"] == other

    third = run("call", "pay", "amount=3", "to=Bob").lines[-1]["call_id"]
    assert run("reject", third[:14]).code == 4
    fourth = run("call", "pay", "amount=3", "to=Bob").lines[-1]["call_id"]
    assert run("approve", fourth[:14]).lines[0]["data"] == "Paid 3 to Bob."


def test_an_ambiguous_prefix_names_the_candidates(run, configured):
    first, second = (run("call", "sign").lines[-1]["call_id"] for _ in range(2))

    for command in (["approve"], ["reject"], ["settle"], ["show"], ["cancel"], ["pending"], ["calls"], ["audit"]):
        ran = run(*command, first[:4])

        assert (ran.code, ran.out) == (2, ""), command
        assert f"{first[:4]} is the beginning of several call ids. Give more of it:" in ran.err
        assert f"{first} (sign)" in ran.err
        assert f"{second} (sign)" in ran.err


def test_of_calls_with_one_prefix_the_one_that_waits_is_meant(run, history):
    assert run("reject", "c3").code == 4
    asyncio.run(_wait_again(history))

    assert run("approve", "c", "--arguments", '{"amount": 1}').code in (1, 3)


async def _wait_again(folder) -> None:
    async with Runtime(pay, store=folder / "calls.db") as runtime:
        await runtime.call("pay", {"amount": 1}, call_id="c9")


def test_the_time_of_a_filter_may_be_how_long_ago(run, history):
    begun = time.time() - 60

    assert all(line["at"] > begun for line in run("calls", "--since", "1m").lines)
    assert re.search(r"--since TIME", run("calls", "--help").out)


def test_the_audit_names_the_person_who_approved_a_call_at_once(run, configured):
    run("call", "pay", "amount=3", "to=Bob", "--yes")
    run("call", "pay", "amount=4", "to=Bob", "--no")

    rows = run("audit", "--tool", "pay").lines
    answers = [(row["detail"]["answer"], row["by"]) for row in rows if row["kind"] == "answer"]
    assert answers == [("reject", getpass.getuser()), ("approve", getpass.getuser())]


def test_every_table_fits_80_columns(terminal, run, configured):
    long_name = "somebody.with.a.rather.long.name@example.com"
    run("call", "pay", "amount=3", "to=Bob", "--user", long_name, "--session", "a-session-with-a-long-name")
    first = run("call", "pay", "amount=4", "to=Ada", "--user", long_name).lines[0]["call_id"]
    run("approve", first, "--always", "--by", long_name)

    for command in (["tools"], ["pending"], ["grants"], ["calls"], ["audit"], ["store", "info"], ["show", first]):
        screen = terminal(*command, COLUMNS="80")

        assert screen.ends() == 0, command
        assert max(map(len, screen.text.splitlines())) <= 80, (command, screen.text)
