"""No test here dials anything but loopback, whatever it forgets to replace."""

from pathlib import Path

import pytest

from tests.http.server import only_loopback


@pytest.fixture(autouse=True)
def _only_loopback(monkeypatch):
    only_loopback(monkeypatch)


def pytest_collection_modifyitems(items):
    """These tests open connections, some with certificates made for them: a busy machine takes its time."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(30))
