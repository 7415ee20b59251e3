"""Readers come and go while three processes post: each sees every message once, and in order."""

from __future__ import annotations

import pytest

from tests.store.readers import read_while_posted

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize(("readers", "messages"), [(20, 150), pytest.param(200, 600, marks=pytest.mark.long)])
async def test_each_reader_sees_every_message_once_and_in_order(shared_address, readers, messages):
    found = await read_while_posted(shared_address, readers=readers, writers=3, messages=messages)

    assert found.problems == []
    assert found.posted >= messages - 3
    assert sum(reader.visits for reader in found.readers) > 2 * readers
