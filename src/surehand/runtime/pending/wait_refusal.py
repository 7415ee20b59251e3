"""Wait refusal: for programs in which no one could ever answer a call that waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from surehand.core.outcome import Pending


@dataclass(slots=True)
class WaitRefusal:
    """Whether calls that would have to wait fail instead."""

    describe: Callable[[Pending], str] | None = None
    """Says why a call cannot wait; None lets calls wait."""
