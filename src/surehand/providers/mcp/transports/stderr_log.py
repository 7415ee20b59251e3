"""Stderr log: what a server writes to stderr goes to the log, and its last lines are kept."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from surehand.core.sanitize import MAX_LOG_CHARS, escape_line

MAX_KEPT_LINES = 20
"""Lines that are kept for whoever asks why a server does not work."""
_MAX_LINES_PER_SECOND = 100
"""Lines that are logged within a second; of the rest, only their number."""
_CHUNK_BYTES = 1 << 16
_TAIL_BYTES = 16 * 1024
_PAUSE_SECONDS = 0.01
"""Seconds between two looks at a server that says more than can be logged: it is slowed down, and never stopped."""


class StderrLog:
    """Reads until nothing more comes, however much it is, at little cost."""

    def __init__(self, log: logging.Logger) -> None:
        self.last_lines: deque[str] = deque(maxlen=MAX_KEPT_LINES)
        self._log = log
        self._partial_line = b""
        self._logged_this_second = self._skipped_count = 0
        self._second_began = 0.0

    async def read(self, stream: asyncio.StreamReader) -> None:
        """Take all that comes."""
        while data := await stream.read(_CHUNK_BYTES):
            if self._is_over_rate():
                self._keep_tail(data)
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                self._log_lines(data)
        if self._partial_line:
            self._log_line(self._partial_line)
        self._log_skipped_count()

    def _is_over_rate(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._second_began >= 1:
            self._log_skipped_count()
            self._second_began, self._logged_this_second = now, 0
        return self._logged_this_second >= _MAX_LINES_PER_SECOND

    def _log_lines(self, data: bytes) -> None:
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            self._log_line(line)
        self._partial_line = self._partial_line[: 4 * MAX_LOG_CHARS + 1]

    def _keep_tail(self, data: bytes) -> None:
        """Only the end is looked at."""
        self._skipped_count += data.count(b"\n")
        *lines, begun = data[-_TAIL_BYTES:].split(b"\n")
        self.last_lines.extend(escape_line(line.rstrip(b"\r"), MAX_LOG_CHARS) for line in lines[-MAX_KEPT_LINES:])
        self._partial_line = begun[: 4 * MAX_LOG_CHARS + 1]

    def _log_line(self, line: bytes) -> None:
        if not line.strip():
            return
        text = escape_line(line.rstrip(b"\r\n"), MAX_LOG_CHARS)
        self.last_lines.append(text)
        if self._logged_this_second < _MAX_LINES_PER_SECOND:
            self._log.info("%s", text)
            self._logged_this_second += 1
        else:
            self._skipped_count += 1

    def _log_skipped_count(self) -> None:
        if self._skipped_count:
            self._log.info("… and %d more lines.", self._skipped_count)
            self._skipped_count = 0
