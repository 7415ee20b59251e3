"""DeltaBuffer: joins the pieces of text and arguments that a model writes, so that the event log keeps few of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from surehand.core.events import SpaceMessageDelta, TextDelta, ToolInputDelta

DELTA_SECONDS = 0.1
"""How long pieces are collected: a model writes one every few milliseconds, and each event is a row of the store."""
MAX_DELTA_CHARACTERS = 4_000
Delta: TypeAlias = TextDelta | ToolInputDelta | SpaceMessageDelta


class DeltaBuffer:
    """Holds one joined delta for each run, until its time is over or anything else of the run happens."""

    def __init__(self, append: Callable[[Delta], None]) -> None:
        self._append = append
        self._deltas: dict[str, Delta] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def add(self, delta: Delta) -> None:
        """Join a delta to the one before, if it continues the same text or arguments."""
        run_id = delta.run_id
        buffered = self._deltas.get(run_id)
        if buffered is not None and not _continues(buffered, delta):
            self.flush(run_id)
            buffered = None
        if buffered is None:
            self._deltas[run_id] = delta
            self._timers[run_id] = asyncio.get_running_loop().call_later(DELTA_SECONDS, self.flush, run_id)
            return
        self._deltas[run_id] = joined = buffered._replace(text=buffered.text + delta.text)
        if len(joined.text) >= MAX_DELTA_CHARACTERS:
            self.flush(run_id)

    def flush(self, run_id: str) -> None:
        """Append the buffered delta of a run."""
        delta = self._deltas.pop(run_id, None)
        if delta is not None:
            self._timers.pop(run_id).cancel()
            self._append(delta)

    def flush_all(self) -> None:
        """Append the buffered deltas of all runs."""
        for run_id in [*self._deltas]:
            self.flush(run_id)


def _continues(buffered: Delta, delta: Delta) -> bool:
    if isinstance(buffered, ToolInputDelta) and isinstance(delta, ToolInputDelta):
        if not buffered.text:  # the beginning of a call, which some formats have an event of its own for
            return False
        return buffered.position == delta.position and buffered.call_id == delta.call_id
    if isinstance(buffered, SpaceMessageDelta) and isinstance(delta, SpaceMessageDelta):
        return buffered.text != "" and buffered.call_id == delta.call_id
    return type(buffered) is type(delta)
