"""Shares: how much of something each user has at one time, so that nobody takes what others need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Most:
    """How much there may be."""

    of_user: float = inf
    of_nobody: float = inf
    """Of all together who have no name."""
    bytes_of_user: float = inf
    """Of these, too."""


class Shares(Generic[Key]):
    """What there is, by any key, and whose it is."""

    def __init__(self, most: Most) -> None:
        self._most = most
        self._taken: dict[Key, tuple[str | None, int]] = {}
        self._numbers: dict[str | None, int] = defaultdict(int)
        self._bytes: dict[str | None, int] = defaultdict(int)

    def __contains__(self, key: Key) -> bool:
        return key in self._taken

    def __len__(self) -> int:
        return len(self._taken)

    def have_room(self, user: str | None, size: int = 0) -> bool:
        """Whether a user may have one more, of so many bytes. One alone may have any size."""
        number = self.number_of(user)
        if number >= (self._most.of_nobody if user is None else self._most.of_user):
            return False
        return not number or self._bytes[user] + size <= self._most.bytes_of_user

    def number_of(self, user: str | None) -> int:
        """How many a user has."""
        return self._numbers.get(user, 0)

    def take(self, key: Key, user: str | None, size: int = 0) -> None:
        """Count one; once, however often it is taken."""
        if key not in self._taken:
            self._taken[key] = user, size
            self._numbers[user] += 1
            self._bytes[user] += size

    def give_back(self, key: Key) -> None:
        """It is there no more."""
        if (found := self._taken.pop(key, None)) is None:
            return
        user, size = found
        self._numbers[user] -= 1
        self._bytes[user] -= size
        if not self._numbers[user]:
            del self._numbers[user], self._bytes[user]
