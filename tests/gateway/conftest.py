"""A longer time limit for tests that start servers and processes, which are slow on a busy machine."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(60))
