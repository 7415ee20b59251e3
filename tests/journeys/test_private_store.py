"""A store inside the workspace stays out of reach of file tools and of commands, whenever its files come."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from surehand import Pending, Runtime, Sandbox, Workspace, files, shell, tool
from surehand.assemble import assemble
from surehand.config.config import read_config
from surehand.store.store import Store
from tests.requirements import needs

pytestmark = [pytest.mark.timeout(60), needs("bubblewrap")]
SUFFIXES = ("", "-journal", "-wal", "-shm", "-owners/abc", "-owner-abc")


@pytest.fixture
def paid() -> list[int]:
    return []


@pytest.fixture
def pay(paid: list[int]):
    @tool(effects={"write"}, confirm=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    return pay


def write_commands(name: str) -> list[str]:
    tries = ["echo x > {0}", "rm -r {0}", "mv {0} other", "ln -sf /tmp/x {0}", "cp /etc/passwd {0}"]
    return [each.format(f"{name}{suffix}") for suffix in SUFFIXES[:5] for each in tries]


@pytest.mark.parametrize("place", ["calls.db", "state/calls.db"])
async def test_no_command_creates_changes_or_reads_a_file_of_the_store(tmp_path: Path, pay, place: str) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    async with Runtime(pay, files(tmp_path), shell(tmp_path), store=tmp_path / place) as runtime:
        waiting = await runtime.call("pay", {"amount": 5})
        assert isinstance(waiting, Pending)
        for command in write_commands(place):
            assert not (await runtime.call("bash", {"command": command})).ok, command
        assert not (await runtime.call("bash", {"command": f"mv {Path(place).parent} away"})).ok
        read = await runtime.call("bash", {"command": f"cat {place}*; ls {place}-owners; grep -ra pay ."})
        assert "SQLite format" not in read.text
        assert "pay" not in read.text.replace("grep -ra pay", "")
        assert [call.call_id for call in await runtime.pending()] == [waiting.call_id]


@pytest.mark.parametrize("suffix", SUFFIXES)
async def test_no_file_tool_touches_a_file_of_the_store_that_the_runtime_was_given(
    tmp_path: Path, pay, monkeypatch, suffix: str
) -> None:
    monkeypatch.chdir(tmp_path)
    async with Runtime(pay, files("."), store="surehand.db") as runtime:
        for name, arguments in [
            ("write", {"file_path": f"surehand.db{suffix}", "content": "x"}),
            ("read", {"file_path": f"surehand.db{suffix}"}),
            ("move_file", {"from": f"surehand.db{suffix}", "to": "x"}),
        ]:
            assert (await runtime.call(name, arguments)).code in ("denied", "not_found"), (name, suffix)
        assert not (tmp_path / "x").exists()


async def test_a_journal_that_a_command_writes_approves_nothing(tmp_path: Path, pay, paid: list[int]) -> None:
    """The attack: a copy of the store in which the payment is approved, put where SQLite looks for its log."""
    evil = tmp_path / "evil"
    evil.mkdir()
    async with Runtime(pay, shell(tmp_path), store=tmp_path / "calls.db") as runtime:
        waiting = await runtime.call("pay", {"amount": 5})
        copy = sqlite3.connect(evil / "copy.db")
        with sqlite3.connect(tmp_path / "calls.db") as source:
            source.backup(copy)
        source.close()
        copy.execute("PRAGMA journal_mode=WAL")
        copy.execute("UPDATE ledger SET state = 'running'")
        copy.commit()
        shutil.copy(evil / "copy.db-wal", evil / "wal")
        copy.close()
        command = "cp evil/wal calls.db-wal; cp evil/wal calls.db-journal; cp evil/copy.db calls.db"
        await runtime.call("bash", {"command": command})
        attack = f"for i in $(seq 600); do ({command}) 2>/dev/null; sleep 0.05; done"
        await runtime.call("bash", {"command": attack, "background": True})

    assert paid == []
    async with Runtime(pay, store=tmp_path / "calls.db") as runtime:
        assert [call.call_id for call in await runtime.pending()] == [waiting.call_id]
    assert paid == []


async def test_the_names_stay_masked_when_the_store_is_closed_while_a_command_runs(tmp_path: Path, pay) -> None:
    """SQLite deletes its log with the last connection, and the kernel removes the mask of a deleted file."""
    async with Runtime(shell(tmp_path)) as commands:
        async with Runtime(pay, store=tmp_path / "calls.db") as runtime:
            await runtime.call("pay", {"amount": 5})
            attack = "until [ -e go ]; do sleep 0.02; done; for s in -wal -shm -journal; do echo x > calls.db$s; done"
            started = await commands.call("bash", {"command": attack, "background": True})
        (tmp_path / "go").touch()
        ended = await commands.call("bash_output", {"id": started.data["id"], "wait": 20_000})

        assert ended.data["output"].count("Permission denied") == 3, ended.data
        left = [path.read_bytes() for path in tmp_path.glob("calls.db-*") if path.is_file()]
        assert not any(content.startswith(b"x") for content in left)


async def test_a_command_that_began_before_the_store_was_known_is_ended(tmp_path: Path, pay) -> None:
    async with Runtime(shell(tmp_path)) as commands:
        attack = "while true; do echo x > calls.db-wal; echo x > calls.db-journal; done"
        started = await commands.call("bash", {"command": f"touch began; {attack}", "background": True})
        while not (tmp_path / "began").exists():
            await commands.call("bash_output", {"id": started.data["id"], "wait": 10})
        for suffix in ("-wal", "-journal"):
            (tmp_path / f"calls.db{suffix}").unlink(missing_ok=True)
        store = Store.open(tmp_path / "late.db")
        async with store:
            ended = await commands.call("bash_output", {"id": started.data["id"], "wait": 20_000})
            assert not ended.data["running"]


async def test_a_private_database_that_does_not_exist_yet_is_masked(tmp_path: Path) -> None:
    space = Workspace(tmp_path, private=["later.db"])
    async with Runtime(shell(space)) as runtime:
        for command in write_commands("later.db"):
            assert not (await runtime.call("bash", {"command": command})).ok, command
    async with Store.open(tmp_path / "later.db") as store:
        assert (await store.info())["version"]


async def test_folders_that_a_sandbox_is_given_show_no_store_either(tmp_path: Path, pay) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "cache").mkdir()
    place = tmp_path / "cache" / "calls.db"
    for sandbox in (Sandbox(write=[tmp_path / "cache"]), Sandbox(read=[tmp_path / "cache"])):
        async with Runtime(pay, shell(tmp_path / "project", sandbox=sandbox), store=place) as runtime:
            for command in (f"cat {place}", f"echo x > {place}-journal", f"ls {place}-owners | grep ."):
                assert not (await runtime.call("bash", {"command": command})).ok, command


async def test_the_tokens_of_people_are_hidden(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SUREHAND_STATE", str(tmp_path / ".state"))
    (tmp_path / ".state/tokens").mkdir(parents=True)
    (tmp_path / ".state/tokens/a.json").write_text("hunter2")
    async with Runtime(files(tmp_path), shell(tmp_path)) as runtime:
        assert "hunter2" not in (await runtime.call("bash", {"command": "cat .state/tokens/*"})).text
        assert not (await runtime.call("bash", {"command": "echo x > .state/tokens/b.json"})).ok
        assert (await runtime.call("read", {"file_path": ".state/tokens/a.json"})).code == "denied"
        assert "hunter2" not in (await runtime.call("grep", {"pattern": "hunter", "path": "."})).text.lstrip("hunter")


async def test_the_configuration_of_the_documentation_keeps_its_store_private(tmp_path: Path) -> None:
    (tmp_path / "surehand.yaml").write_text(
        "workspace: {root: ., writes: true}\nstore: surehand.db\nbuiltin: [files, shell]\npolicy: [{decision: allow}]\n"
    )
    async with assemble(read_config(tmp_path / "surehand.yaml")) as runtime:
        assert (await runtime.call("write", {"file_path": "notes.txt", "content": "x"})).ok
        assert (await runtime.call("bash", {"command": "echo more >> notes.txt && ls"})).ok
        for command in (*write_commands("surehand.db"), "echo x > surehand.lock", "echo x > surehand.toml"):
            assert not (await runtime.call("bash", {"command": command})).ok, command
        assert len(await runtime.store.journal.list()) > 2
    assert not (tmp_path / "surehand.lock").exists()


@needs("bubblewrap")
@pytest.mark.parametrize("place", ["calls.db", "state/calls.db"])
async def test_a_link_to_the_store_cannot_be_replaced(tmp_path: Path, pay, place: str) -> None:
    workspace, outside = tmp_path / "work", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    (outside / "calls.db").touch()
    link = workspace / Path(place).parts[0]
    link.symlink_to(outside / "calls.db" if place == "calls.db" else outside)
    async with Runtime(pay, files(workspace), shell(workspace), store=str(workspace / place)) as runtime:
        outcome = await runtime.call("bash", {"command": f"rm {link.name}; touch {link.name}"})
        assert outcome.code == "unavailable"
        assert "real path" in outcome.text
        for name, arguments in (
            ("delete_file", {"file_path": link.name}),
            ("move_file", {"from": link.name, "to": "other"}),
            ("write", {"file_path": link.name, "content": "x"}),
        ):
            assert not (await runtime.call(name, arguments)).ok, name

    assert link.is_symlink()
