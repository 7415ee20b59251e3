"""State: what a client of the newer protocol brings back with its answers."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from surehand.core.canonical_json import json_digest

_DIGEST_LENGTH = 16


class RequestState(NamedTuple):
    """Which question of which call is answered.

    There is nothing in it to forge: the call is looked up, for the user who asks, and goes on with what is kept of it.
    """

    call_id: str
    round: int
    arguments_digest: str
    """A digest of the arguments: who calls again with others means another call."""

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The state that a text stands for; None if it is none of ours."""
        call_id, _, rest = text.rpartition("-")
        number, _, mark = rest.partition(".")
        if not call_id or len(text) > 300 or not (number.isascii() and number.isdigit() and len(number) < 6):
            return None
        return cls(call_id, int(number), mark)

    def __str__(self) -> str:
        return f"{self.call_id}-{self.round}.{self.arguments_digest}"


def digest_arguments(arguments: dict[str, Any] | None) -> str:
    """What the arguments of a call are known by."""
    return json_digest(arguments or {})[:_DIGEST_LENGTH]
