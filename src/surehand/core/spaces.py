"""Spaces: where people and agents see each other's messages, and the calls that are visible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class SpaceWriter(Protocol):
    """A place that visible calls are posted to; whoever keeps spaces implements it."""

    async def post(self, space: str, message: Mapping[str, Any]) -> str:
        """Add a message to a space; gives its id."""
        ...

    async def amend(self, space: str, message_id: str, message: Mapping[str, Any]) -> None:
        """Change a message that was posted before."""
        ...
