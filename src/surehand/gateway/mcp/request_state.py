"""The `requestState` of the modern protocol: which call and question the client's answers are for.

The server sends it with a question, and the client sends it back with the answers.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from surehand.core.canonical_json import json_digest

_DIGEST_LENGTH = 16
_MAX_STATE_LENGTH = 300
_MAX_ROUND_DIGITS = 5


class RequestState(NamedTuple):
    """The call and the round that a client answers.

    It needs no signature: the call is loaded for the user of the request, and resumes with its stored arguments.
    """

    call_id: str
    round: int
    arguments_digest: str
    """A digest of the arguments: the same state with other arguments is refused."""

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse a state; None if it is malformed."""
        call_id, _, rest = text.rpartition("-")
        number, _, arguments_digest = rest.partition(".")
        is_number = number.isascii() and number.isdigit() and len(number) <= _MAX_ROUND_DIGITS
        if not call_id or len(text) > _MAX_STATE_LENGTH or not is_number:
            return None
        return cls(call_id, int(number), arguments_digest)

    def __str__(self) -> str:
        return f"{self.call_id}-{self.round}.{self.arguments_digest}"


def digest_arguments(arguments: dict[str, Any] | None) -> str:
    """A short digest of a call's arguments."""
    return json_digest(arguments or {})[:_DIGEST_LENGTH]
