"""The id of an interrupt: it names one question of a call, so that a repeated answer never counts for a later one."""

from __future__ import annotations

from typing import NamedTuple

from surehand.gateway.api.requests import is_number


class InterruptId(NamedTuple):
    """A call, and the number of the question that it asks."""

    call_id: str
    round: int

    @classmethod
    def parse(cls, text: str) -> InterruptId:
        """Read the id that a client sends. The id of an agent's call ends in `.NUMBER`, never in `:NUMBER`."""
        call_id, _, number = text.rpartition(":")
        if call_id and is_number(number) and int(number) > 1:
            return cls(call_id, int(number))
        return cls(text, 1)

    def __str__(self) -> str:
        """The call id for the first question; later ones also have their number."""
        return self.call_id if self.round == 1 else f"{self.call_id}:{self.round}"
