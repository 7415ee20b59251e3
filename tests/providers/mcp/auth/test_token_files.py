"""Sign-ins are kept where only their owner can read them."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time

import pytest

from surehand.core.errors import Denied, Unavailable
from surehand.providers.mcp.auth.token_files import TokenFolder, canonical_url, state_folder
from surehand.providers.mcp.auth.token_store import MemoryTokenStore, TokenRecord

URL = "https://notes.test/mcp"
SIGN_IN = TokenRecord(
    {"access_token": "s3cret", "refresh_token": "r3fresh", "expires_in": 60}, 123.0, {"client_id": "c"}
)


@pytest.fixture
def tokens(tmp_path):
    return TokenFolder(tmp_path / "state" / "tokens")


def test_what_is_kept_is_there_after_a_restart_and_is_its_owners_alone(tokens):
    tokens.file_for(URL, None).write(SIGN_IN)

    assert TokenFolder(tokens.path).file_for(URL, None).read() == SIGN_IN
    (file,) = tokens.path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o700


def test_nobody_is_given_what_is_anothers(tokens):
    for user in (None, "", "None", "null", "ada"):
        tokens.file_for(URL, user).write(TokenRecord({"access_token": f"for {user!r}"}))

    for user in (None, "", "None", "null", "ada"):
        assert tokens.file_for(URL, user).read().access_token == f"for {user!r}"
    assert tokens.file_for(URL, "bob").read() == TokenRecord()
    for other in ("https://notes.test/mcp/", "http://notes.test/mcp", f"{URL}?tenant=2", "https://notes.test:8443/mcp"):
        assert tokens.file_for(other, "ada").read() == TokenRecord()


def test_one_server_written_in_two_ways_is_one_server(tokens):
    tokens.file_for(URL, None).write(SIGN_IN)

    assert tokens.file_for("HTTPS://Notes.test:443/mcp#part", None).read() == SIGN_IN
    assert canonical_url("https://ada:pass@[2001:db8::1]:8443/mcp?key=1") == "https://[2001:db8::1]:8443/mcp"
    assert canonical_url("https://notes.test") == "https://notes.test/"


def test_what_another_process_writes_is_seen(tokens):
    ours, theirs = tokens.file_for(URL, None), tokens.file_for(URL, None)
    assert ours.read() == TokenRecord()

    theirs.write(SIGN_IN)
    assert ours.read() == SIGN_IN
    theirs.path.unlink()
    assert ours.read() == TokenRecord()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o622])
def test_a_file_that_others_could_read_is_not_used_and_the_log_says_how_to_mend_it(tokens, caplog, mode):
    kept = tokens.file_for(URL, None)
    kept.write(SIGN_IN)
    kept.path.chmod(mode)

    for _ in range(2):
        with pytest.raises(Denied, match=r"not used: others may read or change it") as refused:
            kept.read()

    assert str(tokens.path) not in str(refused.value)
    assert caplog.messages == [f"{kept.path} is not used: others may read or change it. Mend it: chmod 600 {kept.path}"]
    kept.path.chmod(0o600)
    assert kept.read() == SIGN_IN


def test_a_folder_that_others_could_read_is_not_used(tokens, caplog):
    kept = tokens.file_for(URL, None)
    kept.write(SIGN_IN)
    tokens.path.chmod(0o750)

    with pytest.raises(Denied):
        kept.read()
    with pytest.raises(Denied):
        kept.write(SIGN_IN)
    assert f"chmod 700 {tokens.path}" in caplog.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_somebody_else_is_not_used(tokens, caplog):
    kept = tokens.file_for(URL, None)
    kept.write(SIGN_IN)
    os.chown(kept.path, 12345, 12345)

    with pytest.raises(Denied, match="belongs to somebody else"):
        kept.read()


def test_no_link_is_followed(tokens, tmp_path):
    kept = tokens.file_for(URL, None)
    kept.write(SIGN_IN)
    kept.path.rename(tmp_path / "elsewhere")
    kept.path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(Denied):
        kept.read()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tokens": 1}', '{"tokens": {}}', '{"expires_at": "x"}'])
def test_a_damaged_file_counts_as_none_and_says_so(tokens, caplog, text):
    kept = tokens.file_for(URL, None)
    kept.write(SIGN_IN)
    kept.path.write_text(text)

    assert kept.read() == TokenRecord()
    assert "damaged" in caplog.text


def test_where_nothing_can_be_written_it_is_good_for_as_long_as_the_process(tokens, caplog, monkeypatch):
    kept = tokens.file_for(URL, None)
    kept.write(TokenRecord({"access_token": "old"}))
    monkeypatch.setattr(os, "replace", _full)

    kept.write(SIGN_IN)

    assert kept.read() == SIGN_IN
    assert "cannot be kept" in caplog.text
    assert "s3cret" not in caplog.text
    assert tokens.file_for(URL, None).read().access_token == "old"
    assert len(list(tokens.path.iterdir())) == 1


def _full(*args, **more):
    raise OSError(28, "No space left on device")


async def test_forgetting_removes_everything(tokens):
    kept = tokens.file_for(URL, "ada")
    kept.write(SIGN_IN)
    (tokens.path / f".{kept.path.stem}.0.new").write_text("left by a crash")

    assert await kept.delete()
    assert not await kept.delete()
    assert kept.read() == TokenRecord()
    assert [path.name for path in tokens.path.iterdir()] == [f"{kept.path.stem}.renew"]


@pytest.mark.parametrize("make", [lambda tokens: tokens.file_for(URL, None), lambda tokens: MemoryTokenStore()])
async def test_turns_are_taken_one_after_another_and_a_cancelled_one_is_given_back(tokens, make):
    kept, inside, most = make(tokens), 0, 0

    async def turn():
        nonlocal inside, most
        async with kept.lock("renew", 20.0):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.01)
            inside -= 1

    async with kept.lock("ask", 20.0):  # another thing altogether
        await asyncio.gather(*(turn() for _ in range(5)))
    assert most == 1

    holding = asyncio.Event()
    held = asyncio.create_task(_hold(kept, holding))
    await holding.wait()
    with pytest.raises(Unavailable):
        async with kept.lock("renew", 0.05):
            pass
    held.cancel()
    await asyncio.wait({held})
    await turn()


async def _hold(kept, holding):
    async with kept.lock("renew", 20.0):
        holding.set()
        await asyncio.Event().wait()


def test_nothing_secret_is_shown(tokens):
    kept = tokens.file_for(URL, "ada")
    kept.write(SIGN_IN)

    shown = repr(SIGN_IN) + repr(kept) + repr(tokens) + repr(MemoryTokenStore())
    assert "s3cret" not in shown
    assert "r3fresh" not in shown


def test_a_sign_in_grows_stale_a_little_before_its_end():
    def ending(seconds, lifetime):
        return TokenRecord({"access_token": "a", "expires_in": lifetime}, time.time() + seconds)

    assert not TokenRecord().is_expiring()
    assert not TokenRecord({"access_token": "a"}).is_expiring()
    assert ending(-1, 3600).is_expiring()
    assert ending(20, 3600).is_expiring()
    assert not ending(60, 3600).is_expiring()
    assert not ending(60, 80).is_expiring()
    assert not ending(20, 24).is_expiring()


def test_the_folder_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("SUREHAND_STATE", str(tmp_path / "a"))
    assert TokenFolder().path == tmp_path / "a" / "tokens"
    monkeypatch.delenv("SUREHAND_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "b"))
    assert state_folder() == tmp_path / "b" / "surehand"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_folder() == tmp_path / ".local" / "state" / "surehand"


def test_a_file_says_whose_it_is(tokens):
    kept = tokens.file_for(f"{URL}?key=s3cret", "ada")
    kept.write(TokenRecord())

    found = json.loads(kept.path.read_text())
    assert (found["server"], found["user"]) == (URL, "ada")
