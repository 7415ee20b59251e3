"""The stderr of a server: its lines go to the log, at a limited rate, and the last ones are kept for error reports.

The stdio transport uses it. Secrets of the connection are masked before a line is cut: half of one would not be found.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from surehand.core.sanitize import MAX_LOG_CHARS, escape_line
from surehand.providers.mcp.connection_secrets import ConnectionSecrets

MAX_KEPT_LINES = 20
"""Last lines that are kept for the exit report."""
_MAX_LINES_PER_SECOND = 100
"""Lines that are logged in a second. Of further lines only the number is logged."""
_CHUNK_BYTES = 1 << 16
_TAIL_BYTES = 16 * 1024
_PAUSE_SECONDS = 0.01
"""Pause between reads over the limit: it slows the server down, and keeps its pipe from filling up for good."""


class StderrLog:
    """Reads stderr until it ends. A flood of lines costs little time."""

    def __init__(self, log: logging.Logger, secrets: ConnectionSecrets | None = None) -> None:
        self.last_lines: deque[str] = deque(maxlen=MAX_KEPT_LINES)
        self._log = log
        self._secrets = secrets or ConnectionSecrets()
        self._redact_line = self._secrets.line_redactor()
        self._partial_line = b""
        self._logged_this_second = 0
        self._skipped_count = 0
        self._second_began = 0.0

    async def read(self, stream: asyncio.StreamReader) -> None:
        """Read a stream to its end."""
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
            self._second_began = now
            self._logged_this_second = 0
        return self._logged_this_second >= _MAX_LINES_PER_SECOND

    def _log_lines(self, data: bytes) -> None:
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            self._log_line(line)
        self._partial_line = self._partial_line[: self._max_line_bytes]

    @property
    def _max_line_bytes(self) -> int:
        """Bytes of a line that are enough to cut it after masking: a character has at most four."""
        return 4 * (MAX_LOG_CHARS + 1 + self._secrets.max_form_chars)

    def _render(self, line: bytes) -> str:
        text = line[: self._max_line_bytes].rstrip(b"\r\n").decode(errors="backslashreplace")
        return escape_line(self._redact_line(text), MAX_LOG_CHARS)

    def _keep_tail(self, data: bytes) -> None:
        """Count the lines of a chunk, and keep only the last ones."""
        self._skipped_count += data.count(b"\n")
        *lines, partial_line = data[-_TAIL_BYTES:].split(b"\n")
        # Of the first line the beginning is missing: what is left of a secret in it would not be found.
        self.last_lines.extend(self._render(line) for line in lines[1:][-MAX_KEPT_LINES:])
        self._partial_line = partial_line[: self._max_line_bytes] if lines else b""

    def _log_line(self, line: bytes) -> None:
        if not line.strip():
            return
        text = self._render(line)
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
