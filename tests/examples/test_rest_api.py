"""The example of a REST API runs as a reader would run it, and shows no token."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "rest_api.py"


@pytest.mark.timeout(80)  # another interpreter is started
def test_the_example_lists_all_pages_asks_and_shows_no_token():
    run = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=60, check=False)

    assert run.returncode == 0, run.stderr
    assert "Volume 1, Volume 2, Volume 3, Volume 4, Volume 5, Volume 6, Volume 7" in run.stdout
    assert "POST http://library/books/3/loans\n" in run.stdout
    assert 'answer: {"path":"/books/3/loans","loan":{"days":14},"seen":"Bearer [redacted]"}' in run.stdout
    assert "t0ken" not in run.stdout + run.stderr
