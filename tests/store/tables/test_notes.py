"""The table `notes`."""

from __future__ import annotations

import pytest

from surehand.store.migrations import open_database
from surehand.store.tables.notes import NoteTable

pytestmark = pytest.mark.timeout(30)


async def test_notes_are_stored_by_agent_kind_and_key(address):
    database = await open_database(address)
    notes = NoteTable(database)
    await notes.put("ada", "memory", {"tea": "green", "likes": ["maths", 1]})
    await notes.put("ada", "memory", {"tea": "black"})
    await notes.put("bob", "memory", {"tea": "none"})
    await notes.put("ada", "goal", {"g1": {"description": "learn"}})

    assert await notes.all("ada", "memory") == {"tea": "black", "likes": ["maths", 1]}
    assert await notes.all("ada", "goal") == {"g1": {"description": "learn"}}
    assert await notes.delete("ada", "memory", ["tea", "unknown"]) == 1
    assert await notes.all("ada", "memory") == {"likes": ["maths", 1]}
    assert await notes.all("bob", "memory") == {"tea": "none"}
    await database.close()
