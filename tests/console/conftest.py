"""All tests of the console drive a browser: they are long, and are skipped where there is none."""

import pytest

from tests.console.browser import CHROMIUM


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.long)
    item.add_marker(pytest.mark.timeout(180))  # a browser on a busy machine
    if CHROMIUM is None:
        item.add_marker(pytest.mark.skip(reason="Chromium is not installed: scripts/system installs it."))
