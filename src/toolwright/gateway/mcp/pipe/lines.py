"""Lines: what comes in pieces, put together and taken apart; one that is too long is skipped, and not kept."""

from __future__ import annotations

from dataclasses import replace

from toolwright.gateway.mcp.messages.frames import Overlong

EDGE = 512
"""Bytes at either end of a line that are kept though it is too long: its id may be there."""


class Lines:
    """Lines out of pieces of any length."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun: list[bytes] = []
        self._length = 0
        self._skipped: Overlong | None = None

    def split(self, data: bytes) -> list[bytes | Overlong]:
        """The lines that end in this piece; the rest waits for the next one."""
        *ended, rest = data.split(b"\n")
        lines: list[bytes | Overlong] = [*ended] if len(data) <= self._most else [*map(self._whole, ended)]
        if ended and (self._begun or self._skipped):
            lines[0] = self._ended(ended[0])
        if rest:
            self._keep(rest)
        return lines

    def _ended(self, part: bytes) -> bytes | Overlong:
        """What was begun before, with its last part."""
        self._keep(part)
        whole = self._skipped or b"".join(self._begun)
        self._begun, self._length, self._skipped = [], 0, None
        return whole

    def _whole(self, line: bytes) -> bytes | Overlong:
        return line if len(line) <= self._most else Overlong(line[:EDGE], line[-EDGE:], self._most)

    def _keep(self, part: bytes) -> None:
        if self._skipped is not None:
            self._skipped = replace(self._skipped, tail=(self._skipped.tail + part[-EDGE:])[-EDGE:])
            return
        self._begun.append(part)
        self._length += len(part)
        if self._length > self._most:
            whole, self._begun = b"".join(self._begun), []
            self._skipped = Overlong(whole[:EDGE], whole[-EDGE:], self._most)
