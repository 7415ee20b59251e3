"""Space message: the message that shows a call in its space."""

from __future__ import annotations

from typing import NamedTuple


class SpaceMessage(NamedTuple):
    """What is known of the message of one call. It does not change: a new one takes its place."""

    id: str | None = None
    status: str | None = None
    """The status that the message shows."""
    posts_when_stored: bool = False
    """Whether the message is written in the transaction that stores the wait of the call."""


NO_MESSAGE = SpaceMessage()
