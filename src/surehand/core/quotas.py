"""Quotas: how many requests, and how many bytes of them, one user may have in flight at the same time.

The gateway over stdio and over HTTP, its list of tasks, and the pending calls count with it, so that one user cannot
take what others need.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """The most that one user may have at the same time."""

    per_user: float = inf
    """Items of one named user."""
    anonymous: float = inf
    """Items of all anonymous users together."""
    bytes_per_user: float = inf
    """Bytes of all items of one user, or of all anonymous users together."""


class Quota(Generic[Key]):
    """Counts items by key, and adds up their number and size for each user. `None` is the anonymous user."""

    def __init__(self, limits: QuotaLimits) -> None:
        self._limits = limits
        self._items: dict[Key, tuple[str | None, int]] = {}
        self._counts: dict[str | None, int] = defaultdict(int)
        self._bytes: dict[str | None, int] = defaultdict(int)

    def __contains__(self, key: Key) -> bool:
        return key in self._items

    def __len__(self) -> int:
        return len(self._items)

    def has_room(self, user: str | None, size: int = 0) -> bool:
        """Whether the user may add an item of this size. A user's only item may have any size."""
        count = self.count(user)
        limit = self._limits.anonymous if user is None else self._limits.per_user
        if count >= limit:
            return False
        return not count or self._bytes[user] + size <= self._limits.bytes_per_user

    def count(self, user: str | None) -> int:
        """The number of items that the user has."""
        return self._counts.get(user, 0)

    def acquire(self, key: Key, user: str | None, size: int = 0) -> None:
        """Count an item. A key that is counted already is not counted again."""
        if key not in self._items:
            self._items[key] = user, size
            self._counts[user] += 1
            self._bytes[user] += size

    def release(self, key: Key) -> None:
        """Stop counting an item; do nothing if it is not counted."""
        item = self._items.pop(key, None)
        if item is None:
            return
        user, size = item
        self._counts[user] -= 1
        self._bytes[user] -= size
        if not self._counts[user]:
            del self._counts[user], self._bytes[user]
