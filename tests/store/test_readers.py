"""Readers of a space come and go while three processes post: each sees every message once, in order."""

from __future__ import annotations

import faulthandler

import pytest

from tests.store.readers import read_while_posted

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(autouse=True)
def patience() -> None:
    """On a busy machine these take longer than a loop that hangs may: their own limit is what counts."""
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.parametrize(("readers", "messages"), [(20, 150), pytest.param(200, 600, marks=pytest.mark.long)])
async def test_each_reader_sees_every_message_once_and_in_order(shared_address, readers, messages):
    found = await read_while_posted(shared_address, readers=readers, writers=3, messages=messages)

    assert found.problems == []
    assert found.posted >= messages - 3
    assert sum(reader.visits for reader in found.readers) > 2 * readers
