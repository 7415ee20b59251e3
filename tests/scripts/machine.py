"""A machine with few programs, for the scripts that look at it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ALWAYS_THERE = ("bash", "cat", "chmod", "dirname", "env", "sh")
APT_GET = """\
#!/usr/bin/env bash
echo "apt-get $*" >>"$LOG"
case "$1" in
update) echo '#!/bin/sh' >"$BIN/has-lists" ;;
install)
    [ -e "$BIN/has-lists" ] || { echo "E: Unable to locate package" >&2 && exit 100; }
    echo '#!/bin/sh' >"$BIN/bwrap" && chmod +x "$BIN/bwrap" ;;
esac
"""


def executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


class Machine:
    """Programs of its own on the path, of which `apt-get` and `sudo` only write down that they were called."""

    def __init__(self, folder: Path, user_id: int, *programs: str) -> None:
        self._bin = folder / "bin"
        self._log = folder / "called"
        self._bin.mkdir(parents=True)
        self._log.touch()
        for name in ALWAYS_THERE:
            (self._bin / name).symlink_to(shutil.which(name) or name)
        executable(self._bin / "python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        executable(self._bin / "id", f"#!/bin/sh\necho {user_id}\n")
        executable(self._bin / "apt-get", APT_GET)
        executable(self._bin / "sudo", '#!/bin/sh\necho "sudo $*" >>"$LOG"\n')
        for name in programs:
            executable(self._bin / name, "#!/bin/sh\n")

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        known = {**os.environ, "PATH": str(self._bin), "BIN": str(self._bin), "LOG": str(self._log)}
        return subprocess.run(command, env=known, capture_output=True, text=True, check=False)

    def without(self, program: str) -> Machine:
        (self._bin / program).unlink()
        return self

    @property
    def called(self) -> list[str]:
        return self._log.read_text().splitlines()
