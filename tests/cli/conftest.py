"""Fixtures that run the command line: in a terminal of its own, in a pipe, or in this process where that is enough."""

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
START_PROGRAM = "from surehand.cli.main import main; main()"
ESCAPE_SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|[\x07\r]")
COMMAND_TIMEOUT_SECONDS = 30.0
_numbers = count(1)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Raise the timeout, because these tests start processes, which is slow on a busy machine."""
    if item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(80))


@dataclass(frozen=True)
class CommandResult:
    """The exit code and output of a command."""

    code: Any
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A short path, so that the line breaks of a terminal do not depend on the number of earlier test runs."""
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

    def run(*arguments: str, stdin: str = "") -> CommandResult:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        return CommandResult(ended.value.code, *capsys.readouterr())

    yield run
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def piped(tmp_path, fast_command):
    """Runs a command as a process with its output in a pipe; with `start`, in a new interpreter."""

    def run(*arguments: str, start: str | None = None, **options: Any) -> CommandResult:
        program = fast_command if start is None else [sys.executable, "-P", "-c", start]
        ended = subprocess.run(
            [*program, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_SECONDS,
            check=False,
            **options,
        )
        return CommandResult(ended.returncode, ended.stdout, ended.stderr)

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
        # With PYTHONUNBUFFERED, an interrupted write (such as by SIGSTOP) loses the rest of its bytes.
        removed = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONUNBUFFERED", "EDITOR", "VISUAL")
        inherited = {key: value for key, value in os.environ.items() if key not in removed}
        self.process = subprocess.Popen(
            command, stdin=child, stdout=child, stderr=child, cwd=folder, start_new_session=True,
            env={**inherited, "TERM": "xterm-256color", **environment},
        )  # fmt: skip
        os.close(child)
        self.raw, self._read = "", 0
        self._decode = codecs.getincrementaldecoder("utf-8")(
            errors="replace"
        ).decode  # a read may end in the middle of a character

    @property
    def text(self) -> str:
        """Everything shown so far, without colors and cursor movements."""
        return ESCAPE_SEQUENCES.sub("", self.raw)

    @property
    def left(self) -> str:
        """Like `text`, but without erased lines, in which a slow call shows its progress."""
        return ESCAPE_SEQUENCES.sub("", re.sub(r"[^\n]*\r\x1b\[2K", "", self.raw))

    def sees(self, pattern: str) -> str:
        """Wait until the pattern is shown after the last match; returns the match."""
        deadline = time.monotonic() + COMMAND_TIMEOUT_SECONDS
        while not (found := re.search(pattern, self.text[self._read :])):
            if not self._read_more(deadline):
                raise AssertionError(
                    f"{pattern!r} was not shown within {COMMAND_TIMEOUT_SECONDS:g} seconds in:\n{self.text}"
                )
        self._read += found.end()
        return found[0]

    def types(self, text: str, *, enter: bool = True) -> None:
        os.write(self._screen, f"{text}\r".encode() if enter else text.encode())

    def interrupts(self) -> None:
        """Press Ctrl-C until it has an effect: readline misses it between showing its prompt and reading."""
        before = len(self.text)
        for _ in range(5):
            self.types("\x03", enter=False)
            deadline = time.monotonic() + 5
            while self._read_more(deadline):
                if "cancelled" in self.text[before:]:
                    return

    def ends(self) -> int:
        """Wait for the end of the process; returns its exit code."""
        deadline = time.monotonic() + COMMAND_TIMEOUT_SECONDS
        while self._read_more(deadline):
            pass
        return self.process.wait(timeout=max(deadline - time.monotonic(), 0.1))

    def _read_more(self, deadline: float) -> bool:
        if not select.select([self._screen], [], [], max(deadline - time.monotonic(), 0))[0]:
            return False
        try:
            new = os.read(self._screen, 65536)
        except OSError:  # every process has closed the terminal
            return False
        self.raw += self._decode(new)
        return bool(new)

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._screen)


@pytest.fixture
def terminal(tmp_path, fast_command):
    """Opens a terminal in which `surehand` runs with the given arguments."""
    pytest.importorskip("termios")
    terminals: list[Terminal] = []

    def open_one(*arguments: str, command: list[str] | None = None, **environment: str) -> Terminal:
        command = command or [*fast_command, *arguments]
        terminals.append(Terminal(command, tmp_path, environment))
        return terminals[-1]

    yield open_one
    for one in terminals:
        one.close()


@pytest.fixture
def on_path(tmp_path_factory) -> str:
    """A PATH with the `surehand` under test, wherever it is installed, and the `python` that runs the tests."""
    return make_path(tmp_path_factory.mktemp("bin"), [sys.executable, "-P", "-c", START_PROGRAM])


@pytest.fixture
def fast_path(tmp_path_factory, fast_command) -> str:
    """Like `on_path`, with a `surehand` that has imported everything already."""
    return make_path(tmp_path_factory.mktemp("bin"), fast_command)


def make_path(folder: Path, surehand: list[str]) -> str:
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
