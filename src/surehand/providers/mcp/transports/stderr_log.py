"""Stderr log: what a server writes to stderr goes to the log, and its last lines are kept."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from surehand.core.sanitize import MAX_LOG_CHARS, escape_line

KEPT = 20
"""Lines that are kept for whoever asks why a server does not work."""
_RATE = 100
"""Lines that are logged within a second; of the rest, only their number."""
_CHUNK = 1 << 16
_TAIL = 16 * 1024
_PAUSE = 0.01
"""Seconds between two looks at a server that says more than can be logged: it is slowed down, and never stopped."""


class StderrLog:
    """Reads until nothing more comes, however much it is, at little cost."""

    def __init__(self, log: logging.Logger) -> None:
        self.lines: deque[str] = deque(maxlen=KEPT)
        self._log = log
        self._begun = b""
        self._logged = self._skipped = 0
        self._since = 0.0

    async def read(self, stream: asyncio.StreamReader) -> None:
        """Take all that comes."""
        while data := await stream.read(_CHUNK):
            if self._full():
                self._skim(data)
                await asyncio.sleep(_PAUSE)
            else:
                self._take(data)
        if self._begun:
            self._say(self._begun)
        self._tell_skipped()

    def _full(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._since >= 1:
            self._tell_skipped()
            self._since, self._logged = now, 0
        return self._logged >= _RATE

    def _take(self, data: bytes) -> None:
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._say(line)
        self._begun = self._begun[: 4 * MAX_LOG_CHARS + 1]

    def _skim(self, data: bytes) -> None:
        """Only the end is looked at."""
        self._skipped += data.count(b"\n")
        *lines, begun = data[-_TAIL:].split(b"\n")
        self.lines.extend(escape_line(line.rstrip(b"\r"), MAX_LOG_CHARS) for line in lines[-KEPT:])
        self._begun = begun[: 4 * MAX_LOG_CHARS + 1]

    def _say(self, line: bytes) -> None:
        if not line.strip():
            return
        text = escape_line(line.rstrip(b"\r\n"), MAX_LOG_CHARS)
        self.lines.append(text)
        if self._logged < _RATE:
            self._log.info("%s", text)
            self._logged += 1
        else:
            self._skipped += 1

    def _tell_skipped(self) -> None:
        if self._skipped:
            self._log.info("… and %d more lines.", self._skipped)
            self._skipped = 0
