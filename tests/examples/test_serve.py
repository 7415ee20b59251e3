"""The script that serves a sample workspace leaves nothing behind, however it ends."""

import re
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WANTED = f"{ROOT}\n{(ROOT / 'requirements/dev.txt').read_text()}"


def is_set_up() -> bool:
    """Whether `scripts/setup` has nothing to do: a test installs nothing."""
    pins, project = ROOT / ".venv/installed-pins", ROOT / ".venv/installed-pyproject"
    if not (pins.exists() and project.exists()):
        return False
    return pins.read_text() == WANTED and project.read_text() == (ROOT / "pyproject.toml").read_text()


@pytest.mark.long
@pytest.mark.timeout(80)  # it starts a server, on a machine that may be busy
@pytest.mark.skipif(not is_set_up(), reason="the environment of the scripts is another one")
def test_the_copy_is_removed_even_when_the_server_is_killed(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    command = [ROOT / "scripts/serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as server:
        assert server.stderr is not None
        try:
            told = until("Serving ", server.stderr)
            [copy] = set(re.findall(rf"{tmp_path}/toolwright-serve\.\w+", told))
            assert (Path(copy) / "workspace").is_dir()
        finally:
            server.kill()
        server.stderr.read()  # whoever removes the copy holds the other end until that is done

    assert server.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


def until(word: str, lines: Iterable[str]) -> str:
    told = ""
    for line in lines:
        told += line
        if word in line:
            return told
    raise AssertionError(told)
