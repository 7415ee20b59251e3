"""Token files can be read by their owner only."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time

import pytest

from surehand.core.errors import Denied, Unavailable
from surehand.core.private_paths import state_folder
from surehand.providers.mcp.auth.token_files import TokenFolder, canonical_url
from surehand.providers.mcp.auth.token_store import MemoryTokenStore, TokenRecord

URL = "https://notes.test/mcp"
RECORD = TokenRecord(
    {"access_token": "s3cret", "refresh_token": "r3fresh", "expires_in": 60}, 123.0, {"client_id": "c"}
)


@pytest.fixture
def tokens(tmp_path):
    return TokenFolder(tmp_path / "state" / "tokens")


def test_stored_tokens_survive_a_restart_in_files_of_mode_600(tokens):
    tokens.file_for(URL, None).write(RECORD)

    assert TokenFolder(tokens.path).file_for(URL, None).read() == RECORD
    (file,) = tokens.path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o700


def test_each_user_and_server_reads_only_its_own_tokens(tokens):
    for user in (None, "", "None", "null", "ada"):
        tokens.file_for(URL, user).write(TokenRecord({"access_token": f"for {user!r}"}))

    for user in (None, "", "None", "null", "ada"):
        assert tokens.file_for(URL, user).read().access_token == f"for {user!r}"
    assert tokens.file_for(URL, "bob").read() == TokenRecord()
    for other in ("https://notes.test/mcp/", "http://notes.test/mcp", f"{URL}?tenant=2", "https://notes.test:8443/mcp"):
        assert tokens.file_for(other, "ada").read() == TokenRecord()


def test_two_spellings_of_a_url_share_a_token_file(tokens):
    tokens.file_for(URL, None).write(RECORD)

    assert tokens.file_for("HTTPS://Notes.test:443/mcp#part", None).read() == RECORD
    assert canonical_url("https://ada:pass@[2001:db8::1]:8443/mcp?key=1") == "https://[2001:db8::1]:8443/mcp"
    assert canonical_url("https://notes.test") == "https://notes.test/"


def test_a_write_of_another_process_is_read(tokens):
    ours, theirs = tokens.file_for(URL, None), tokens.file_for(URL, None)
    assert ours.read() == TokenRecord()

    theirs.write(RECORD)
    assert ours.read() == RECORD
    theirs.path.unlink()
    assert ours.read() == TokenRecord()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o622])
def test_a_file_that_others_can_access_is_refused_and_the_log_gives_the_remedy(tokens, caplog, mode):
    store = tokens.file_for(URL, None)
    store.write(RECORD)
    store.path.chmod(mode)

    for _ in range(2):
        with pytest.raises(Denied, match=r"not used: others may read or change it") as refused:
            store.read()

    assert str(tokens.path) not in str(refused.value)
    assert caplog.messages == [
        f"Token file {store.path} is not used: others may read or change it. To fix this: chmod 600 {store.path}"
    ]
    store.path.chmod(0o600)
    assert store.read() == RECORD


def test_a_folder_that_others_can_access_is_refused(tokens, caplog):
    store = tokens.file_for(URL, None)
    store.write(RECORD)
    tokens.path.chmod(0o750)

    with pytest.raises(Denied):
        store.read()
    with pytest.raises(Denied):
        store.write(RECORD)
    assert f"chmod 700 {tokens.path}" in caplog.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused(tokens, caplog):
    store = tokens.file_for(URL, None)
    store.write(RECORD)
    os.chown(store.path, 12345, 12345)

    with pytest.raises(Denied, match="belongs to another user"):
        store.read()


def test_a_symbolic_link_is_refused(tokens, tmp_path):
    store = tokens.file_for(URL, None)
    store.write(RECORD)
    store.path.rename(tmp_path / "elsewhere")
    store.path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(Denied):
        store.read()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tokens": 1}', '{"tokens": {}}', '{"expires_at": "x"}'])
def test_a_damaged_file_is_ignored_with_a_warning(tokens, caplog, text):
    store = tokens.file_for(URL, None)
    store.write(RECORD)
    store.path.write_text(text)

    assert store.read() == TokenRecord()
    assert "damaged" in caplog.text


def test_tokens_that_cannot_be_written_are_used_until_the_process_ends(tokens, caplog, monkeypatch):
    store = tokens.file_for(URL, None)
    store.write(TokenRecord({"access_token": "old"}))
    monkeypatch.setattr(os, "replace", _full)

    store.write(RECORD)

    assert store.read() == RECORD
    assert "Cannot write the tokens" in caplog.text
    assert "s3cret" not in caplog.text
    assert tokens.file_for(URL, None).read().access_token == "old"
    assert len(list(tokens.path.iterdir())) == 1


def _full(*args, **more):
    raise OSError(28, "No space left on device")


async def test_delete_removes_every_file(tokens):
    store = tokens.file_for(URL, "ada")
    store.write(RECORD)
    (tokens.path / f".{store.path.stem}.0.new").write_text("left by a crash")

    assert await store.delete()
    assert not await store.delete()
    assert store.read() == TokenRecord()
    assert [path.name for path in tokens.path.iterdir()] == [f"{store.path.stem}.renew"]


@pytest.mark.parametrize("make", [lambda tokens: tokens.file_for(URL, None), lambda tokens: MemoryTokenStore()])
async def test_a_lock_is_exclusive_and_is_released_on_cancellation(tokens, make):
    store, inside, most = make(tokens), 0, 0

    async def turn():
        nonlocal inside, most
        async with store.lock("renew", 20.0):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.01)
            inside -= 1

    async with store.lock("ask", 20.0):  # another thing altogether
        await asyncio.gather(*(turn() for _ in range(5)))
    assert most == 1

    holding = asyncio.Event()
    held = asyncio.create_task(_hold(store, holding))
    await holding.wait()
    with pytest.raises(Unavailable):
        async with store.lock("renew", 0.05):
            pass
    held.cancel()
    await asyncio.wait({held})
    await turn()


async def _hold(store, holding):
    async with store.lock("renew", 20.0):
        holding.set()
        await asyncio.Event().wait()


def test_repr_shows_no_secret(tokens):
    store = tokens.file_for(URL, "ada")
    store.write(RECORD)

    shown = repr(RECORD) + repr(store) + repr(tokens) + repr(MemoryTokenStore())
    assert "s3cret" not in shown
    assert "r3fresh" not in shown


def test_tokens_count_as_expiring_shortly_before_they_expire():
    def ending(seconds, lifetime):
        return TokenRecord({"access_token": "a", "expires_in": lifetime}, time.time() + seconds)

    assert not TokenRecord().is_expiring()
    assert not TokenRecord({"access_token": "a"}).is_expiring()
    assert ending(-1, 3600).is_expiring()
    assert ending(20, 3600).is_expiring()
    assert not ending(60, 3600).is_expiring()
    assert not ending(60, 80).is_expiring()
    assert not ending(20, 24).is_expiring()


def test_the_state_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SUREHAND_STATE", str(tmp_path / "a"))
    assert TokenFolder().path == tmp_path / "a" / "tokens"
    monkeypatch.delenv("SUREHAND_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "b"))
    assert state_folder() == tmp_path / "b" / "surehand"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_folder() == tmp_path / ".local" / "state" / "surehand"


def test_a_token_file_names_its_server_and_user(tokens):
    store = tokens.file_for(f"{URL}?key=s3cret", "ada")
    store.write(TokenRecord())

    found = json.loads(store.path.read_text())
    assert (found["server"], found["user"]) == (URL, "ada")
