"""`surehand store` and `surehand audit`."""

import sqlite3
from dataclasses import fields

import pytest

from surehand import Retention
from surehand.cli.commands.store import DEFAULT_AGES, RETENTION_LABELS
from surehand.cli.options import DurationParam
from surehand.store.migrations import MIGRATION_FILES

NEWEST = len(MIGRATION_FILES)
EVERY = [["store", "info"], ["store", "prune"], ["audit", "verify"]]


@pytest.fixture
def used(run, configured):
    """A store in which one call has ended and one waits."""
    run("call", "pay", "amount=3", "to=Bob", "--yes")
    run("call", "sign")
    return configured


def change(folder, sql):
    database = sqlite3.connect(folder / "calls.db")
    with database:
        database.execute(sql)
    database.close()


def test_info_counts_everything(run, used):
    [info] = run("store", "info").lines

    assert info["store"] == str(used / "calls.db")
    assert (info["version"], info["newest_version"], info["waiting"]) == (NEWEST, NEWEST, 1)
    assert info["calls"] == {"ended": 1, "waiting": 1}
    assert (info["rows"]["ledger"], info["rows"]["pending"], info["rows"]["owners"]) == (2, 1, 0)
    assert info["bytes"] == (used / "calls.db").stat().st_size


@pytest.mark.parametrize("command", EVERY)
def test_commands_that_only_read_create_no_store(run, configured, command):
    ran = run(*command)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: The store calls.db does not exist. The first call that is stored creates it")
    assert not list(configured.glob("*.db*"))


@pytest.mark.parametrize("command", [*EVERY, ["store", "migrate"]])
def test_without_a_store_the_error_says_how_to_add_one(run, tmp_path, command):
    ran = run(*command)

    assert (ran.code, ran.out) == (2, "")
    assert "Add `store: surehand.db` to a surehand.yaml, or name one with --store surehand.db." in ran.err


@pytest.mark.parametrize("command", [*EVERY, ["store", "migrate"], ["pending"], ["approve", "x"]])
def test_a_file_that_is_no_store_ends_with_2(run, tmp_path, command):
    (tmp_path / "calls.db").write_text("These are not the calls that you are looking for.")

    ran = run(*command, "--store", "calls.db")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: The store cannot be used: calls.db cannot be opened: file is not a database.\n"


def test_a_store_of_a_newer_version_is_left_alone(run, used):
    change(used, "INSERT INTO schema_versions VALUES (99, 0)")

    ran = run("store", "info")

    assert ran.code == 2
    assert ran.err.startswith("error: The store cannot be used: ")
    assert "version 99" in ran.err


@pytest.mark.parametrize("address", ["mysql://db/x", "sqlite:///x.db", " "])
def test_an_invalid_address_is_refused(run, address):
    ran = run("store", "info", "--store", address)

    assert (ran.code, ran.out) == (2, "")
    assert "A store must be a file or a postgresql:// address." in ran.err


@pytest.mark.parametrize("address", ["postgresql://me:hunter%2@127.0.0.1:1/x", "postgresql://me:hunter2@127.0.0.1:1/x"])
def test_a_password_is_never_shown(run, address):
    pytest.importorskip("psycopg")

    ran = run("store", "info", "--store", address)

    assert (ran.code, ran.out) == (2, "")
    assert "hunter" not in ran.err


def test_migrate_creates_the_store_and_then_has_nothing_to_do(run, configured):
    made = {"store": str(configured / "calls.db"), "version": NEWEST, "applied": NEWEST}
    assert run("store", "migrate").lines == [made]
    assert run("store", "migrate").lines[0]["applied"] == 0
    assert run("store", "info").lines[0]["calls"] == {}


def test_prune_deletes_ended_calls_and_keeps_pending_ones(run, used):
    kept = run("store", "prune")
    over = ("calls", "idle", "journal", "inbox", "runs", "artifacts", "events", "offers")
    assert kept.lines[0]["forgotten"] == dict.fromkeys(over, 0)

    pruned = run("store", "prune", "--calls", "0s", "--journal", "off", "--vacuum")

    assert pruned.lines[0]["forgotten"]["calls"] == 1
    assert "journal" not in pruned.lines[0]["forgotten"]
    [info] = run("store", "info").lines
    assert (info["calls"], info["waiting"], info["rows"]["journal"] > 0) == ({"waiting": 1}, 1, True)
    assert run("audit", "verify").lines[0]["sound"] is True


def test_the_default_ages_of_prune_are_those_of_retention():
    ages = {field.name: field.default for field in fields(Retention) if not field.name.startswith("max")}

    assert {name: DurationParam().convert(age, None, None) for name, age in DEFAULT_AGES.items()} == ages
    assert RETENTION_LABELS.keys() == DEFAULT_AGES.keys()


@pytest.mark.parametrize("age", ["soon", "-1d", "3 weeks"])
def test_an_invalid_age_is_wrong_usage(run, used, age):
    ran = run("store", "prune", f"--calls={age}")

    assert (ran.code, ran.out) == (2, "")
    assert "is not a duration" in ran.err
    assert run("store", "info").lines[0]["calls"]["ended"] == 1


def test_a_sound_audit_ends_with_0_and_a_changed_one_with_1(run, used):
    sound = run("audit", "verify")
    assert (sound.code, sound.err) == (0, "")
    assert sound.lines[0]["rows"] >= 3
    assert (sound.lines[0]["unsealed"], sound.lines[0]["problem"], len(sound.lines[0]["head"])) == (0, None, 64)

    change(used, "UPDATE audit SET by_whom = 'nobody' WHERE id = 1")

    changed = run("audit", "verify")
    assert (changed.code, changed.lines[0]["sound"], changed.lines[0]["seals"]) == (1, False, 0)
    assert changed.lines[0]["problem"].startswith("Seal 1 has another hash")


def test_a_noted_head_must_be_in_the_chain(run, used):
    noted = run("audit", "verify").lines[0]
    run("call", "sign")

    later = run("audit", "verify", "--head", noted["head"].upper())
    assert (later.code, later.lines[0]["noted_seal"]) == (0, noted["seals"])
    assert later.lines[0]["head"] != noted["head"]

    change(used, f"DELETE FROM seals WHERE position >= {noted['seals']}")
    cut = run("audit", "verify", "--head", noted["head"])
    assert run("audit", "verify").lines[0]["sound"] is True  # that the end is missing, only the noted head tells
    assert (cut.code, cut.lines[0]["sound"], cut.lines[0]["noted_seal"]) == (1, False, None)
    assert cut.lines[0]["problem"].startswith("The noted head is not in the chain")

    assert run("audit", "verify", "--head", "abc").code == 2


def test_a_person_gets_readable_output(terminal, used):
    screen = terminal("store", "info")
    screen.sees(rf"store +calls\.db *\nversion +{NEWEST}, the newest *\nsize +\d+\.\d kB *\npending calls +1 *\n")
    screen.sees(r"calls by state *\n +1  waiting *\n +1  ended *\nrows by table *\n +2  ledger *\n")
    assert screen.ends() == 0

    screen = terminal("store", "migrate")
    screen.sees(rf"calls\.db has version {NEWEST}, the newest \(nothing to do\)\.\n")
    assert screen.ends() == 0

    screen = terminal("store", "prune", "--calls", "0s")
    screen.sees(r"deleted *\n +1  ended calls *\n +0  rows of the journal *\n")
    screen.sees(r"The store has \d+\.\d kB\.\n")
    assert screen.ends() == 0

    screen = terminal("audit", "verify")
    screen.sees(r"\d+ rows, \d+ valid seals, 0 rows after the last\nhead \w{64}\nThe audit is sound\.\n")
    assert screen.ends() == 0

    change(used, "DELETE FROM audit WHERE id = 1")
    screen = terminal("audit", "verify")
    screen.sees(r"not sound: Seal 1 covers \d rows and there are \d: a row is missing")
    assert screen.ends() == 1
