"""The programs that a newcomer copies first pass a strict type checker as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from surehand.cli.commands.init import TOOLS_TEMPLATE

ROOT = Path(__file__).parents[2]
LOOP = "docs/how-to/keep-your-own-loop.md"
FENCE = re.compile(r"^```python([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def programs() -> dict[str, str]:
    """The examples of the README, the files of the tutorial, the agent loop as one, and what `init` writes."""
    text = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/tutorial.md", LOOP)}
    readme = {f"readme_{number}.py": code for number, (_, code) in enumerate(FENCE.findall(text["README.md"]))}
    tutorial = {info.partition("file=")[2].strip(): code for info, code in FENCE.findall(text["docs/tutorial.md"])}
    loop = "".join(code for _, code in FENCE.findall(text[LOOP])).replace("\nawait main()\n", "\n")
    return {**readme, **tutorial, "loop.py": loop, "tools.py": TOOLS_TEMPLATE}


@pytest.mark.timeout(85)  # the first time, there is much to read
def test_the_first_programs_pass_a_strict_type_checker(request, tmp_path, monkeypatch):
    written = programs()
    for name, code in written.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    cache = request.config.rootpath / ".mypy_cache" / "docs"
    monkeypatch.chdir(tmp_path)

    # In a process of its own: what it builds up would be looked through for garbage in every test that follows here.
    options = ["--strict", "--config-file=", "--python-version=3.11", f"--cache-dir={cache}"]
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *written], capture_output=True, text=True, check=False
    )

    assert (ran.stderr, ran.returncode) == ("", 0), ran.stdout
    assert len(written) > 6
