"""How long servers, clients and processes take is the machine's affair: only what never comes to an end has failed."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(60))
