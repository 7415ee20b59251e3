"""The base class of transports. The inbound filter and the direct path use only what is defined here."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from surehand.jsonrpc.streams import MessageReadStream, MessageWriteStream

Headers: TypeAlias = dict[str, str]
OnConnectionEnd: TypeAlias = Callable[[str], None]
"""Called once with the reason when the server ends a connection."""
ResultReceiver: TypeAlias = Callable[[int, dict[str, Any]], bool]
"""Takes the id and the result of a response. Returns False if it has to be read as an ordinary message."""
TOOLS_CALL = "tools/call"


def is_being_cancelled() -> bool:
    """Whether the current task is cancelled from outside. A broken transport cancels it too, but uncancels it."""
    # anyio's cancel scopes call `Task.uncancel` when they are left, so the count is that of other cancellations.
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Transport(ABC):
    """One connection to a server. The MCP SDK's `Client` enters and leaves it; it is used once.

    Everything but entering and leaving has a default here, for transports that cannot do better.
    """

    uses_headers = False
    """Whether `try_send_call` uses the headers of a call, which only HTTP has."""

    @abstractmethod
    async def __aenter__(self) -> tuple[MessageReadStream, MessageWriteStream]:
        """Connect."""

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Disconnect."""

    def deliver_results_to(self, receiver: ResultReceiver) -> None:  # noqa: B027 - by default it delivers none
        """Give results to the receiver as soon as they arrive, if that keeps the order of messages."""

    def try_send_call(self, request_id: int, params: dict[str, Any], headers: Headers) -> bool:
        """Send a `tools/call` at once. Returns False if it has to be sent as an ordinary message.

        Raises `ValueError` for arguments that JSON cannot carry.
        """
        return False

    def stop_reading(self) -> None:  # noqa: B027 - most transports read only when the session asks
        """The session reads no more messages."""

    def exit_report(self) -> str:
        """How the server ended and what it wrote to stderr, for a person; empty if nothing is known."""
        return ""

    def exit_summary(self) -> list[str]:
        """How the server ended, in sentences that a model may read."""
        return []
