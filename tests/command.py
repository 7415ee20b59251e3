"""`surehand` as a command that need not import anything first: a child of `tests/cli/ready.py` becomes it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.cli.ready import COMMAND

_PROGRAM = Path(__file__).parent / "cli" / "ready.py"
# Opening its terminal makes a process that leads its session own it, and only then Ctrl-C reaches it.
_FROM_NOTHING = (
    "import os; os.isatty(0) and os.close(os.open(os.ttyname(0), os.O_RDWR)); "
    "from surehand.cli.main import main; main()"
)


class Command(list[str]):
    """The words to start it with."""

    def __init__(self, words: list[str], parent: int) -> None:
        super().__init__(words)
        self._parent = psutil.Process(parent)

    def running(self) -> set[int]:
        """The processes that are `surehand` now."""
        return {each.pid for each in self._parent.children()}


@contextmanager
def becoming(address: str) -> Iterator[Command]:
    """Whoever is at this address becomes the command."""
    if not hasattr(os, "pidfd_open"):  # nobody can wait for another's child there
        yield Command([sys.executable, "-P", "-c", _FROM_NOTHING], os.getpid())
        return
    program, pipe = [sys.executable, "-P", str(_PROGRAM), address], subprocess.PIPE
    with subprocess.Popen(program, stdin=pipe, stdout=pipe, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield Command([sys.executable, "-I", "-S", "-c", COMMAND, address], process.pid)
        process.communicate()
