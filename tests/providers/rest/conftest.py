"""No test here connects to anything but loopback."""

import pytest

from tests.http.server import only_loopback


@pytest.fixture(autouse=True)
def _only_loopback(monkeypatch):
    only_loopback(monkeypatch)
