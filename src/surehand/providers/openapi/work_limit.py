"""How much work the schemas of one operation may take: a hostile document must not stop the event loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from surehand.providers.openapi.scalars import limited_char_count

MAX_OPERATION_WORK = 4_000
"""Units of work for the schemas of one operation, about 10 microseconds each; what is beyond accepts any value."""
CHARS_PER_WORK = 20
"""Characters of choices and other values that are one unit of work."""


@dataclass(slots=True)
class WorkLimit:
    """The work that is left for one operation or definition.

    It counts instead of measuring time, so that the same document always has the same schemas.
    """

    remaining: int = MAX_OPERATION_WORK

    def spend(self, units: int) -> bool:
        """Spend some units; returns whether so many were left."""
        self.remaining -= units
        return self.remaining >= 0

    def can_copy(self, value: Any, max_chars: int) -> bool:
        """Whether a value is small enough to be copied from the document; spends the work for it."""
        chars = limited_char_count(min(max_chars, self.remaining * CHARS_PER_WORK), value)
        return chars is not None and self.spend(chars // CHARS_PER_WORK)
