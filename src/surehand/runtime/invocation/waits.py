"""Waits: how long a call has waited for its slot and for people."""

from __future__ import annotations

from typing import NamedTuple


class Waits(NamedTuple):
    """How long a call has waited for its slot and for people, while its caller waited too."""

    queued_seconds: float = 0.0
    person_seconds: float = 0.0
    """Without the wait that goes on."""
    person_wait_started_at: float | None = None
    """Since when the call waits for a person, and its caller with it."""


NO_WAITS = Waits()
