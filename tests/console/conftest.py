"""All tests of the console drive a browser: they have more time, and are skipped where there is none."""

import pytest

from tests.requirements import needs

NEEDS_CHROMIUM = needs("chromium")


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.timeout(180))  # a browser on a busy machine
    item.add_marker(NEEDS_CHROMIUM)
