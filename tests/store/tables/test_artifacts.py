"""The table `artifacts`: large outputs under handles."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from typing import Any

import pytest

from surehand.store.database import Statement, UnexpectedRowCount, UnstorableValue
from surehand.store.migrations import open_database
from surehand.store.tables.artifacts import Artifact, ArtifactInfo, ArtifactTable

ABOUT: Any = {"tool": "echo", "reason": "size_limit_exceeded", "user": "ada", "session": "s", "lines": 1, "bytes": 10}
pytestmark = pytest.mark.timeout(30)


@asynccontextmanager
async def artifacts_at(address: str) -> AsyncIterator[ArtifactTable]:
    database = await open_database(address)
    try:
        yield ArtifactTable(database)
    finally:
        await database.close()


@asynccontextmanager
async def with_ages(address: str, *ages: float) -> AsyncIterator[ArtifactTable]:
    """Artifacts a0, a1, ... of ten bytes, so many seconds old."""
    async with artifacts_at(address) as artifacts:
        for number, age in enumerate(ages):
            keep = artifacts.save_statement(f"a{number}", "x" * 10, **ABOUT)
            grow_old = Statement("UPDATE artifacts SET created_at = created_at - :age WHERE handle = :handle",
                                 {"age": age, "handle": f"a{number}"})  # fmt: skip
            await artifacts._database.write([keep, grow_old])
        yield artifacts


async def left(artifacts: ArtifactTable) -> list[str]:
    return [row["handle"] for row in await artifacts._database.read("SELECT handle FROM artifacts ORDER BY handle")]


async def test_an_artifact_is_found_by_its_handle(address):
    async with artifacts_at(address) as artifacts:
        await artifacts.save("h1", "one\ntwo", **{**ABOUT, "lines": 2, "bytes": 7})
        found = await artifacts.find("h1", "ada", "s")

    assert found == Artifact("h1", "one\ntwo", "echo", "size_limit_exceeded", 7, 2, found.created_at)
    assert found.created_at > 1_700_000_000


async def test_any_text_comes_back_exactly(address):
    texts = ["", "a\0b", "\ud800", "\ud83d\ude00", "ünï 🎉 \r\n", "x" * 5_000_000]
    async with artifacts_at(address) as artifacts:
        for number, text in enumerate(texts):
            await artifacts.save(f"h{number}", text, **ABOUT)

        assert [(await artifacts.find(f"h{n}", "ada", "s")).text for n in range(len(texts))] == texts


async def test_an_artifact_is_visible_only_to_its_exact_owner(address):
    names = (None, "", "ada", "bob")
    owners = list(product(names, names))
    async with artifacts_at(address) as artifacts:
        for user, session in owners:
            await artifacts.save(f"{user}/{session}", "mine", **{**ABOUT, "user": user, "session": session})

        for (user, session), (other_user, other_session) in product(owners, owners):
            is_owner = (user, session) == (other_user, other_session)
            assert (await artifacts.find(f"{user}/{session}", other_user, other_session) is not None) == is_owner
            assert (await artifacts.find_info(f"{user}/{session}", other_user, other_session) is not None) == is_owner
        for user, session in owners:
            listed = await artifacts.list_newest(user, session, limit=100)
            assert [label.handle for label in listed] == [f"{user}/{session}"]


async def test_an_invalid_handle_finds_nothing(address):
    async with artifacts_at(address) as artifacts:
        await artifacts.save("h1", "text", **ABOUT)

        for handle in ("", "unknown", "a\0b", "\ud800", "' OR 1=1 --", "%"):
            assert await artifacts.find(handle, "ada", "s") is None


async def test_a_handle_is_used_once(address):
    async with artifacts_at(address) as artifacts:
        await artifacts.save("h1", "first", **ABOUT)
        with pytest.raises(UnstorableValue):
            await artifacts.save("h1", "second", **ABOUT)

        assert (await artifacts.find("h1", "ada", "s")).text == "first"


async def test_an_artifact_is_part_of_its_transaction(address):
    async with artifacts_at(address) as artifacts:
        fails = Statement("UPDATE artifacts SET tool = '' WHERE handle = 'unknown'", expect=1)
        with pytest.raises(UnexpectedRowCount):
            await artifacts._database.write([artifacts.save_statement("h1", "text", **ABOUT), fails])

        assert await artifacts.count() == 0


async def test_artifacts_that_are_too_old_are_deleted(address):
    async with with_ages(address, 500, 50, 5000) as artifacts:
        assert await artifacts.count() == 3
        assert await artifacts.prune(older_than=400) == 2
        assert await left(artifacts) == ["a1"]


async def test_of_too_many_artifacts_the_oldest_are_deleted(address):
    async with with_ages(address, 30, 10, 40, 20) as artifacts:
        assert await artifacts.prune(older_than=100, keep=2) == 2
        assert await left(artifacts) == ["a1", "a3"]
        assert await artifacts.prune(keep=0) == 2


async def test_of_too_many_bytes_the_oldest_artifacts_are_deleted(address):
    async with with_ages(address, 30, 10, 40, 20) as artifacts:
        assert await artifacts.prune(keep_bytes=40) == 0
        assert await artifacts.prune(keep_bytes=39) == 1
        assert await left(artifacts) == ["a0", "a1", "a3"]
        assert await artifacts.prune(keep_bytes=9) == 3


async def test_all_limits_hold_together(address):
    async with with_ages(address, 30, 10, 40, 20, 500) as artifacts:
        assert await artifacts.prune(older_than=100, keep=3, keep_bytes=25) == 3
        assert await left(artifacts) == ["a1", "a3"]


async def test_without_limits_nothing_is_deleted(address):
    async with with_ages(address, 10**9, 10) as artifacts:
        assert await artifacts.prune() == 0
        assert await artifacts.count() == 2


async def test_the_info_of_an_artifact_has_everything_but_its_text(address):
    async with artifacts_at(address) as artifacts:
        await artifacts.save("h1", "one\ntwo", **{**ABOUT, "lines": 2, "bytes": 7})
        label = await artifacts.find_info("h1", "ada", "s")

        assert label == ArtifactInfo("h1", "echo", "size_limit_exceeded", 7, 2, label.created_at)
        assert [await artifacts.find_info(handle, "ada", "s") for handle in ("", "a\0b", "\ud800")] == [None] * 3


async def test_artifacts_are_listed_newest_first_a_few_at_a_time(address):
    async with with_ages(address, 50, 10, 40, 20, 30) as artifacts:
        found, before = [], None
        while page := await artifacts.list_newest("ada", "s", limit=2, before=before):
            assert len(page) <= 2
            found += [label.handle for label in page]
            before = page[-1].created_at, page[-1].handle

    assert found == ["a1", "a3", "a4", "a2", "a0"]


async def test_artifacts_of_the_same_time_are_listed_once_each(address):
    async with artifacts_at(address) as artifacts:
        await artifacts._database.write([artifacts.save_statement(f"h{number}", "x", **ABOUT) for number in range(5)])
        first = await artifacts.list_newest("ada", "s", limit=3)
        rest = await artifacts.list_newest("ada", "s", limit=3, before=(first[-1].created_at, first[-1].handle))

    assert sorted(label.handle for label in [*first, *rest]) == [f"h{number}" for number in range(5)]
