"""A type checker sees through the decorator: mypy reads `snippet.py` and finds what its comments say."""

import re
from pathlib import Path

import pytest
from mypy import api

SNIPPET = Path(__file__).with_name("snippet.py")
LINE = re.compile(r"snippet\.py:(\d+): (?:note: Revealed type is \"(.*)\"|error: .*(\[[a-z-]+\]))$", re.MULTILINE)
MODULES = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z])")


def expected() -> list[tuple[int, str]]:
    lines = enumerate(SNIPPET.read_text().splitlines(), 1)
    marked = [
        (number, line.rpartition("  # ")) for number, line in lines if "reveal_type(" in line or "# error" in line
    ]
    return [(number, comment.removeprefix("error: ")) for number, (_, _, comment) in marked]


@pytest.mark.timeout(60)
def test_a_type_checker_sees_what_the_comments_say(request: pytest.FixtureRequest) -> None:
    cache = request.config.rootpath / ".mypy_cache" / "typing"

    output, problems, _ = api.run(
        ["--strict", "--config-file=", "--python-version=3.11", f"--cache-dir={cache}", "--no-pretty", str(SNIPPET)]
    )

    found = [(int(number), MODULES.sub("", revealed) or code) for number, revealed, code in LINE.findall(output)]
    assert problems == ""
    assert found == expected()
    assert len(found) > 25
