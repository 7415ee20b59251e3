"""The protocol through which the runtime posts visible calls to a space, where people and agents read messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class SpaceWriter(Protocol):
    """Posts messages to spaces and changes them. A program that has spaces implements it."""

    async def post(self, space: str, message: Mapping[str, Any]) -> str:
        """Add a message to a space and return its id."""
        ...

    async def amend(self, space: str, message_id: str, message: Mapping[str, Any]) -> None:
        """Replace a message that was posted before."""
        ...
