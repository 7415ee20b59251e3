"""`surehand` as a command that starts fast: a fork of `tests/cli/command_server.py`, which has imported everything."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.cli.command_server import CLIENT_PROGRAM

_SERVER_PROGRAM = Path(__file__).parent / "cli" / "command_server.py"
# A session leader owns a terminal only after opening it, and only then Ctrl-C reaches the process.
_NEW_INTERPRETER = (
    "import os; os.isatty(0) and os.close(os.open(os.ttyname(0), os.O_RDWR)); "
    "from surehand.cli.main import main; main()"
)


class Command(list[str]):
    """The command line that starts `surehand`."""

    def __init__(self, words: list[str], parent: int) -> None:
        super().__init__(words)
        self._parent = psutil.Process(parent)

    def running_pids(self) -> set[int]:
        """Process ids of all running `surehand` commands."""
        return {each.pid for each in self._parent.children()}


@contextmanager
def start_command_server(address: str) -> Iterator[Command]:
    """Start the fork server at this socket address; gives the command that connects to it."""
    if not hasattr(os, "pidfd_open"):  # the fork server needs it to notice the end of a command
        yield Command([sys.executable, "-P", "-c", _NEW_INTERPRETER], os.getpid())
        return
    program, pipe = [sys.executable, "-P", str(_SERVER_PROGRAM), address], subprocess.PIPE
    with subprocess.Popen(program, stdin=pipe, stdout=pipe, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield Command([sys.executable, "-I", "-S", "-c", CLIENT_PROGRAM, address], process.pid)
        process.communicate()
