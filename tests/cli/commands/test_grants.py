"""`surehand grants` and `surehand revoke`: standing approvals are listed and revoked by another process."""

import getpass
import json
import sqlite3

import pytest

PAY = ("call", "pay", "amount=3", "to=Bob")


@pytest.fixture
def granted(run, configured):
    """Grants, for these users, that `pay` runs without being asked about."""

    def grant(*users: str) -> None:
        for user in users:
            [pending] = run(*PAY, *(["--user", user] if user else [])).lines
            assert run("approve", pending["call_id"], "--always", "--by", "Grace").code == 0

    return grant


def test_grants_are_listed_with_who_gave_them(run, granted):
    granted("", "ada")

    everybody, ada, nobody = (run("grants", *more) for more in ([], ["--user", "ada"], ["--user", "eve"]))

    assert [(each["tool"], each["user"], each["by"]) for each in everybody.lines] == [
        ("pay", None, "Grace"),
        ("pay", "ada", "Grace"),
    ]
    assert set(everybody.lines[0]) == {"tool", "user", "session", "by", "given_at", "definition"}
    assert ada.lines == everybody.lines[1:]
    assert (nobody.code, nobody.out, nobody.err) == (0, "", "There are no standing approvals.\n")


def test_a_revoked_grant_asks_again(run, granted):
    granted("ada", "bob")

    ran = run("revoke", "pay", "--user", "ada")

    assert (ran.code, ran.lines) == (0, [{"tool": "pay", "user": "ada", "revoked": 1}])
    assert run(*PAY, "--user", "ada").lines[0]["status"] == "pending"
    assert run(*PAY, "--user", "bob").lines[0]["data"] == "Paid 3 to Bob."
    assert run("revoke", "pay", "--user", "ada").code == 5


def test_revoke_covers_all_users_one_user_or_calls_without_a_user(run, granted):
    granted("", "ada", "bob")

    assert run("revoke", "pay", "--user", "").lines[0]["revoked"] == 1
    assert [each["user"] for each in run("grants").lines] == ["ada", "bob"]
    assert run("revoke", "pay").lines[0]["revoked"] == 2
    assert run("grants").lines == []


def test_an_unknown_grant_ends_with_5_and_a_suggestion(run, granted):
    granted("ada")

    assert (ran := run("revoke", "pya")).code == 5
    assert ran.err == "error: There is no standing approval for 'pya'. Did you mean pay?\n"
    assert (
        run("revoke", "pay", "--user", "bob").err == "error: There is no standing approval of user 'bob' for 'pay'.\n"
    )
    assert run("revoke", "pay\x1b[2J").err.count("\x1b") == 0


def test_who_revoked_is_in_the_audit(run, granted):
    granted("ada", "bob")
    run("revoke", "pay", "--user", "ada", "--by", "Heidi")
    run("revoke", "pay")

    database = sqlite3.connect("calls.db")
    found = database.execute("SELECT user_id, by_whom FROM audit WHERE kind = 'revoked' ORDER BY id").fetchall()
    database.close()

    assert found == [("ada", "Heidi"), ("bob", getpass.getuser())]
    assert (run("audit", "verify").code, run("audit", "verify").lines[0]["unsealed"]) == (0, 0)


@pytest.mark.parametrize("command", [["grants"], ["revoke", "pay"], ["show", "x"], ["cancel", "x"]])
def test_without_a_store_the_error_says_how_to_add_one(run, command):
    ran = run(*command)

    assert (ran.code, "name one with --store surehand.db" in ran.err) == (2, True)


def test_a_person_sees_a_table_and_what_revoking_means(terminal, run, granted):
    granted("ada", "")

    screen = terminal("grants")
    screen.sees(r"Tool +User +Given by +Since +Definition *\n")
    screen.sees(r"pay +- +Grace +\d+ s ago +[0-9a-f]{8} *\n")
    screen.sees(r"pay +ada +Grace +\d+ s ago")
    assert screen.ends() == 0

    screen = terminal("revoke", "pay", "--user", "ada")
    screen.sees(r"Revoked\. The next call of pay for ada asks again\.\n")
    assert screen.ends() == 0

    screen = terminal("revoke", "pay")
    screen.sees(r"Revoked\. The next call of pay for all users asks again\.\n")
    assert screen.ends() == 0


def test_it_works_on_postgresql(run, tmp_path, shop, postgres_address):
    (tmp_path / "surehand.yaml").write_text(json.dumps({"tools": [shop], "store": postgres_address}))
    [pending] = run(*PAY).lines
    run("approve", pending["call_id"], "--always")

    assert [each["tool"] for each in run("grants").lines] == ["pay"]
    assert run("revoke", "pay").lines[0]["revoked"] == 1
    assert run(*PAY).code == 3
