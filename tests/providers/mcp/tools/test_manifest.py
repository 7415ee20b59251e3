"""What a server said is remembered, so that nothing has to be started to know its tools; nothing else is believed."""

import json
import logging
import os
import stat
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from surehand.providers.mcp.tools import manifest as module
from surehand.providers.mcp.tools.manifest import Manifest, ManifestCache, cache_directory, identity_on_this_machine

GIT = "stdio:uvx mcp-server-git"
SAID = Manifest.from_listing(
    [
        {
            "name": "log",
            "description": "Grüße\u200b",
            "inputSchema": {"type": "object", "maximum": 1.5},
            "_meta": {"a": 1},
        }
    ],
    [{"name": "review"}],
    instructions="Commit often.",
    server={"name": "git", "version": "1.0"},
    protocol="2026-07-28",
)


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "cache" / "mcp"


@pytest.fixture
def manifests(folder) -> ManifestCache:
    return ManifestCache(folder)


@pytest.fixture
def kept(manifests, folder) -> Path:
    """The file of a manifest that was saved."""
    manifests.save(GIT, SAID)
    [file] = folder.iterdir()
    return file


def change(file, **values):
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_what_was_saved_is_loaded(manifests, kept):
    loaded = manifests.load(GIT)

    assert loaded == SAID
    assert loaded.listed_at == SAID.listed_at
    assert (loaded.tools, loaded.prompts) == (SAID.tools, SAID.prompts)
    assert manifests.load("another") is None


def test_the_file_is_named_after_the_place_and_only_its_owner_reads_it(folder, kept):
    assert kept.name == f"{sha256(identity_on_this_machine(GIT).encode()).hexdigest()}.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


def test_manifests_are_equal_if_the_server_said_the_same_whenever_that_was():
    assert replace(SAID, listed_at=1.0) == SAID
    assert replace(SAID, instructions="Never commit.") != SAID
    assert replace(SAID, tools=()) != SAID


def test_a_listing_with_nothing_in_it_is_a_manifest(manifests):
    before = time.time()
    manifests.save("empty", Manifest.from_listing([]))

    loaded = manifests.load("empty")

    assert loaded == Manifest()
    assert loaded.listed_at >= before


def test_a_later_manifest_takes_the_place_of_an_earlier_one(manifests, folder, kept):
    manifests.save(GIT, replace(SAID, instructions="Never commit."))

    assert manifests.load(GIT).instructions == "Never commit."
    assert [*folder.iterdir()] == [kept]


def test_what_is_forgotten_is_gone(manifests, kept):
    manifests.delete(GIT)
    manifests.delete(GIT)

    assert manifests.load(GIT) is None
    assert not kept.exists()


@pytest.mark.parametrize(("days", "known"), [(0, True), (29.9, True), (30.1, False), (-0.5, True), (-2, False)])
def test_what_is_older_than_30_days_or_from_the_future_is_asked_again(manifests, days, known):
    manifests.save(GIT, replace(SAID, listed_at=time.time() - days * 86_400))

    assert (manifests.load(GIT) is not None) == known


BROKEN = {
    "of another version": lambda file: change(file, version=1),
    "of another server": lambda file: change(file, identity="another"),
    "no JSON": lambda file: file.write_text("{"),
    "empty": lambda file: file.write_text(""),
    "no object": lambda file: file.write_text("[]"),
    "no manifest": lambda file: change(file, manifest={"tools": []}),
    "no list of tools": lambda file: change(file, manifest=SAID.to_json() | {"tools": {}}),
    "no tools": lambda file: change(file, manifest=SAID.to_json() | {"tools": [1]}),
    "no time": lambda file: change(file, manifest=SAID.to_json() | {"listed_at": "today"}),
    "no text": lambda file: file.write_bytes(b"\xff"),
    "bottomless": lambda file: file.write_text("[" * 100_000),
    "a link": lambda file: (file.rename(file.with_name("real")), file.symlink_to("real")),
    "a pipe": lambda file: (file.unlink(), os.mkfifo(file)),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "others may write": lambda file: file.chmod(0o666),
    "others may write to the folder": lambda file: file.parent.chmod(0o777),
}


@pytest.mark.parametrize("how", BROKEN)
def test_what_cannot_be_trusted_is_not_used_and_is_told(manifests, kept, caplog, how):
    caplog.set_level(logging.INFO, "surehand")
    BROKEN[how](kept)

    assert manifests.load(GIT) is None
    assert caplog.records[0].message.startswith(f"The manifest {kept} is not used: ")


def test_a_file_or_folder_of_another_user_is_not_used(manifests, kept, caplog, monkeypatch):
    caplog.set_level(logging.INFO, "surehand")
    monkeypatch.setattr(os, "geteuid", lambda: kept.stat().st_uid + 1)

    assert manifests.load(GIT) is None
    manifests.save(GIT, SAID)

    assert [record.message.partition(": ")[2] for record in caplog.records] == [
        "its folder belongs to another user."
    ] * 2


def test_what_is_too_large_is_neither_loaded_nor_saved(manifests, kept, caplog, monkeypatch):
    caplog.set_level(logging.INFO, "surehand")
    monkeypatch.setattr(module, "MAX_MANIFEST_BYTES", kept.stat().st_size - 1)

    assert manifests.load(GIT) is None
    manifests.save(GIT, SAID)

    assert [record.message.partition(": ")[2][:12] for record in caplog.records] == ["it is larger", "it would be "]
    assert module.MAX_MANIFEST_BYTES < 16 << 20


def test_a_broken_file_is_replaced_by_the_next_save(manifests, kept):
    kept.write_text("{")

    manifests.save(GIT, SAID)

    assert manifests.load(GIT) == SAID


def test_a_link_is_replaced_and_what_it_leads_to_stays(manifests, kept, tmp_path):
    (tmp_path / "precious").write_text("mine")
    kept.unlink()
    kept.symlink_to(tmp_path / "precious")

    manifests.save(GIT, SAID)

    assert (tmp_path / "precious").read_text() == "mine"
    assert manifests.load(GIT) == SAID


@pytest.mark.parametrize("instructions", ["\ud800", object()])
def test_what_no_file_can_hold_is_not_saved(manifests, folder, caplog, instructions):
    manifests.save(GIT, replace(SAID, instructions=instructions))

    assert not folder.exists()
    assert " cannot be kept: " in caplog.records[0].message


def test_a_place_that_cannot_be_written_raises_nothing(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    manifests = ManifestCache(tmp_path / "file" / "mcp")

    manifests.save(GIT, SAID)
    manifests.delete(GIT)

    assert manifests.load(GIT) is None
    assert "cannot be kept: not a directory." in caplog.records[0].message


def test_a_save_that_fails_leaves_the_old_one_and_nothing_else(manifests, folder, kept, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        manifests.save(GIT, Manifest())

    assert manifests.load(GIT) == SAID
    assert [*folder.iterdir()] == [kept]


def test_the_folder_is_where_the_environment_says(monkeypatch, tmp_path):
    for name in ("SUREHAND_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_directory() == tmp_path / "home" / ".cache" / "surehand"

    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert cache_directory() == tmp_path / "home" / ".cache" / "surehand"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "surehand"
    monkeypatch.setenv("SUREHAND_CACHE", str(tmp_path / "ours"))
    assert cache_directory() == tmp_path / "ours"

    ManifestCache().save(GIT, SAID)
    assert [each.parent for each in tmp_path.rglob("*.json")] == [tmp_path / "ours" / "mcp"]


def test_without_a_home_nothing_is_kept(monkeypatch):
    for name in ("SUREHAND_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError))
    manifests = ManifestCache()

    manifests.save(GIT, SAID)
    manifests.delete(GIT)

    assert manifests.load(GIT) is None
