"""A type checker sees through the decorator: mypy reads `snippet.py` and finds what its comments say."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SNIPPET = Path(__file__).with_name("snippet.py")
LINE = re.compile(r"snippet\.py:(\d+): (?:note: Revealed type is \"(.*)\"|error: .*(\[[a-z-]+\]))$", re.MULTILINE)
MODULES = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")


def expected() -> list[tuple[int, str]]:
    lines = enumerate(SNIPPET.read_text().splitlines(), 1)
    marked = [
        (number, line.rpartition("  # ")) for number, line in lines if "reveal_type(" in line or "# error" in line
    ]
    return [(number, comment.removeprefix("error: ")) for number, (_, _, comment) in marked]


@pytest.mark.timeout(85)  # the first time, there is much to read
def test_a_type_checker_sees_what_the_comments_say(request: pytest.FixtureRequest) -> None:
    cache = request.config.rootpath / ".mypy_cache" / "typing"

    # In a process of its own: what it builds up would be looked through for garbage in every test that follows here.
    options = ["--strict", "--config-file=", "--python-version=3.11", f"--cache-dir={cache}", "--no-pretty"]
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(SNIPPET)], capture_output=True, text=True, check=False
    )

    found = [(int(number), MODULES.sub("", revealed) or code) for number, revealed, code in LINE.findall(ran.stdout)]
    assert ran.stderr == ""
    assert found == expected()
    assert len(found) > 25
