"""Fixtures that run the command line in a terminal of its own, in a pipe, or in this process."""

import codecs
import io
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from surehand.cli.main import main

TOOLS = Path(__file__).with_name("shop.py")
START = "from surehand.cli.main import main; main()"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|[\x07\r]")
PATIENCE = 30.0
_numbers = count(1)


def pytest_itemcollected(item: pytest.Item) -> None:
    """How long processes take is the machine's affair: only what never comes to an end has failed."""
    if item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(80))


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it wrote."""

    code: Any
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A short one, so that where a terminal breaks its lines does not depend on how often the tests have been run."""
    with TemporaryDirectory(prefix="tw-") as folder:
        yield Path(folder)


@pytest.fixture
def shop() -> str:
    return str(TOOLS)


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Runs a command in this process, in an empty folder, with its output in a pipe."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)

    def run(*arguments: str, stdin: str = "") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        return Ran(ended.value.code, *capsys.readouterr())

    yield run
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def piped(tmp_path, ready):
    """Runs a command as a process of its own, with its output in a pipe; with a start of its own, from nothing."""

    def run(*arguments: str, start: str | None = None, **options: Any) -> Ran:
        program = ready if start is None else [sys.executable, "-P", "-c", start]
        ended = subprocess.run(
            [*program, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False,
            **options,
        )  # fmt: skip
        return Ran(ended.returncode, ended.stdout, ended.stderr)

    return run


class Terminal:
    """A command in a terminal of its own, 100 columns wide."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        import fcntl
        import pty
        import struct
        import termios

        self._screen, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        # Unbuffered, a write that is interrupted, as by a process that is stopped for a moment, loses its rest.
        changing = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONUNBUFFERED", "EDITOR", "VISUAL")
        kept = {key: value for key, value in os.environ.items() if key not in changing}
        self.process = subprocess.Popen(
            command, stdin=child, stdout=child, stderr=child, cwd=folder, start_new_session=True,
            env={**kept, "TERM": "xterm-256color", **environment},
        )  # fmt: skip
        os.close(child)
        self.raw, self._read = "", 0
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode  # one may come in two parts

    @property
    def text(self) -> str:
        """All that was shown, without colours and cursor movements."""
        return ESCAPES.sub("", self.raw)

    @property
    def left(self) -> str:
        """The same without the lines that were erased again: progress is drawn where a call takes a while."""
        return ESCAPES.sub("", re.sub(r"[^\n]*\r\x1b\[2K", "", self.raw))

    def sees(self, pattern: str) -> str:
        """Wait until something is shown that was not there when this was last asked."""
        until = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.text[self._read :])):
            if not self._more(until):
                raise AssertionError(f"{pattern!r} was never shown in:\n{self.text}")
        self._read += found.end()
        return found[0]

    def types(self, text: str, *, enter: bool = True) -> None:
        os.write(self._screen, f"{text}\r".encode() if enter else text.encode())

    def interrupts(self) -> None:
        """Press Ctrl-C until something happens: readline misses it between showing its prompt and listening."""
        before = len(self.text)
        for _ in range(5):
            self.types("\x03", enter=False)
            until = time.monotonic() + 5
            while self._more(until):
                if "cancelled" in self.text[before:]:
                    return

    def ends(self) -> int:
        """The exit code, once the process has gone."""
        until = time.monotonic() + PATIENCE
        while self._more(until):
            pass
        return self.process.wait(timeout=max(until - time.monotonic(), 0.1))

    def _more(self, until: float) -> bool:
        if not select.select([self._screen], [], [], max(until - time.monotonic(), 0))[0]:
            return False
        try:
            new = os.read(self._screen, 65536)
        except OSError:  # everybody at the other end has gone
            return False
        self.raw += self._decode(new)
        return bool(new)

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._screen)


@pytest.fixture
def terminal(tmp_path, ready):
    """Opens a terminal in which `surehand` runs with the given arguments."""
    pytest.importorskip("termios")
    opened: list[Terminal] = []

    def open_one(*arguments: str, command: list[str] | None = None, **environment: str) -> Terminal:
        command = command or [*ready, *arguments]
        opened.append(Terminal(command, tmp_path, environment))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def on_path(tmp_path_factory) -> str:
    """A PATH on which `surehand` is the one under test, wherever it is installed, and `python` the one that tests."""
    return path_to(tmp_path_factory.mktemp("bin"), [sys.executable, "-P", "-c", START])


@pytest.fixture
def on_ready_path(tmp_path_factory, ready) -> str:
    """The same, where `surehand` need not import anything first."""
    return path_to(tmp_path_factory.mktemp("bin"), ready)


def path_to(folder: Path, surehand: list[str]) -> str:
    for name, command in {"surehand": surehand, "python": [sys.executable]}.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        script.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture
def postgres_address(postgres: Any) -> str:
    """An empty database on a PostgreSQL server."""
    name = f"cli_{next(_numbers)}"
    postgres.psql(f"CREATE DATABASE {name}")
    return str(postgres.get_uri(database=name))


@pytest.fixture
def configured(tmp_path, shop) -> Path:
    """A folder whose configuration names the tools of the shop and a store."""
    (tmp_path / "surehand.yaml").write_text(f"tools: [{shop}]\nstore: calls.db\n")
    return tmp_path
