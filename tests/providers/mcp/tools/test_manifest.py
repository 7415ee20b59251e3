"""The manifest cache: tools are known without starting a server, and untrusted files are ignored."""

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
def cache(folder) -> ManifestCache:
    return ManifestCache(folder)


@pytest.fixture
def cached_file(cache, folder) -> Path:
    """The file of a manifest that was saved."""
    cache.save(GIT, SAID)
    [file] = folder.iterdir()
    return file


def change(file, **values):
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_a_saved_manifest_is_loaded(cache, cached_file):
    loaded = cache.load(GIT)

    assert loaded == SAID
    assert loaded.listed_at == SAID.listed_at
    assert (loaded.tools, loaded.prompts) == (SAID.tools, SAID.prompts)
    assert cache.load("another") is None


def test_the_file_is_named_after_the_identity_and_readable_by_its_owner_only(folder, cached_file):
    assert cached_file.name == f"{sha256(identity_on_this_machine(GIT).encode()).hexdigest()}.json"
    assert stat.S_IMODE(cached_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700


def test_manifests_with_the_same_content_are_equal_whenever_they_were_listed():
    assert replace(SAID, listed_at=1.0) == SAID
    assert replace(SAID, instructions="Never commit.") != SAID
    assert replace(SAID, tools=()) != SAID


def test_an_empty_listing_is_a_manifest(cache):
    before = time.time()
    cache.save("empty", Manifest.from_listing([]))

    loaded = cache.load("empty")

    assert loaded == Manifest()
    assert loaded.listed_at >= before


def test_a_later_manifest_replaces_an_earlier_one(cache, folder, cached_file):
    cache.save(GIT, replace(SAID, instructions="Never commit."))

    assert cache.load(GIT).instructions == "Never commit."
    assert [*folder.iterdir()] == [cached_file]


def test_a_deleted_manifest_is_gone(cache, cached_file):
    cache.delete(GIT)
    cache.delete(GIT)

    assert cache.load(GIT) is None
    assert not cached_file.exists()


@pytest.mark.parametrize(("days", "known"), [(0, True), (29.9, True), (30.1, False), (-0.5, True), (-2, False)])
def test_a_manifest_older_than_30_days_or_from_the_future_is_ignored(cache, days, known):
    cache.save(GIT, replace(SAID, listed_at=time.time() - days * 86_400))

    assert (cache.load(GIT) is not None) == known


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
def test_an_untrusted_file_is_ignored_and_logged(cache, cached_file, caplog, how):
    caplog.set_level(logging.INFO, "surehand")
    BROKEN[how](cached_file)

    assert cache.load(GIT) is None
    assert caplog.records[0].message.startswith(f"Ignored the cached manifest {cached_file}: ")


def test_a_file_or_folder_of_another_user_is_ignored(cache, cached_file, caplog, monkeypatch):
    caplog.set_level(logging.INFO, "surehand")
    monkeypatch.setattr(os, "geteuid", lambda: cached_file.stat().st_uid + 1)

    assert cache.load(GIT) is None
    cache.save(GIT, SAID)

    assert [record.message.partition(": ")[2] for record in caplog.records] == [
        "its folder belongs to another user."
    ] * 2


def test_a_manifest_that_is_too_large_is_neither_loaded_nor_saved(cache, cached_file, caplog, monkeypatch):
    caplog.set_level(logging.INFO, "surehand")
    monkeypatch.setattr(module, "MAX_MANIFEST_BYTES", cached_file.stat().st_size - 1)

    assert cache.load(GIT) is None
    cache.save(GIT, SAID)

    assert [record.message.partition(": ")[2][:12] for record in caplog.records] == ["it is larger", "it would be "]
    assert module.MAX_MANIFEST_BYTES < 16 << 20


def test_a_broken_file_is_replaced_by_the_next_save(cache, cached_file):
    cached_file.write_text("{")

    cache.save(GIT, SAID)

    assert cache.load(GIT) == SAID


def test_a_symbolic_link_is_replaced_and_its_target_stays(cache, cached_file, tmp_path):
    (tmp_path / "precious").write_text("mine")
    cached_file.unlink()
    cached_file.symlink_to(tmp_path / "precious")

    cache.save(GIT, SAID)

    assert (tmp_path / "precious").read_text() == "mine"
    assert cache.load(GIT) == SAID


@pytest.mark.parametrize("instructions", ["\ud800", object()])
def test_a_manifest_that_json_cannot_represent_is_not_saved(cache, folder, caplog, instructions):
    cache.save(GIT, replace(SAID, instructions=instructions))

    assert not folder.exists()
    assert " cannot be stored: " in caplog.records[0].message


def test_a_folder_that_cannot_be_written_raises_nothing(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    cache = ManifestCache(tmp_path / "file" / "mcp")

    cache.save(GIT, SAID)
    cache.delete(GIT)

    assert cache.load(GIT) is None
    assert "cannot be stored: not a directory." in caplog.records[0].message


def test_a_failed_save_leaves_the_old_manifest_and_no_temporary_file(cache, folder, cached_file, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        cache.save(GIT, Manifest())

    assert cache.load(GIT) == SAID
    assert [*folder.iterdir()] == [cached_file]


def test_the_folder_follows_the_environment(monkeypatch, tmp_path):
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


def test_without_a_home_directory_nothing_is_cached(monkeypatch):
    for name in ("SUREHAND_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError))
    cache = ManifestCache()

    cache.save(GIT, SAID)
    cache.delete(GIT)

    assert cache.load(GIT) is None
