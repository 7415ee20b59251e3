"""Handler of client tools: a browser, a person or a webhook does the work, so the handler returns a Pending outcome."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Literal, TypeAlias

from surehand.core.context import RunningCall
from surehand.core.handler import StartHandler
from surehand.core.outcome import Done, Pending

ReplyMode: TypeAlias = Literal["none", "wait", "later"]
"""`none`: the tool returns its default at once. `wait`: the caller waits for the answer. `later`: it does not wait."""


class ClientHandler:
    """Returns the default value, or a Pending outcome that the client's answer settles."""

    can_suspend = False
    can_ask_for_context = False

    def __init__(
        self, name: str, reply: ReplyMode, *, default: Any = None, timeout: float = 30.0, request: Any = None
    ) -> None:
        self._name = name
        self._reply = reply
        self._request = request
        self._default = f"[{name} rendered on client]" if default is None else default
        self._reply_timeout = timeout if reply == "wait" else None

    def compile(self) -> StartHandler:
        return self._start

    def _start(self, call: RunningCall) -> Awaitable[Any]:
        return self._build_outcome()

    async def _build_outcome(self) -> Any:
        if self._reply == "none":
            return self._default if isinstance(self._default, Done) else Done(self._default)
        message = f"{self._name} waits for an answer; it will arrive later."
        return Pending("result", message=message, request=self._request, reply_timeout=self._reply_timeout)
