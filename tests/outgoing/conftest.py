"""No test here dials anything but loopback, whatever it forgets to replace."""

import pytest

from tests.outgoing.server import only_loopback


@pytest.fixture(autouse=True)
def _only_loopback(monkeypatch):
    only_loopback(monkeypatch)
