"""Client tools: a browser, a person or a webhook does the work, so the handler answers Pending."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Literal, TypeAlias

from surehand.core.context import Running
from surehand.core.handler import Start
from surehand.core.outcome import Done, Pending

Reply: TypeAlias = Literal["none", "wait", "later"]


class ClientHandler:
    """Answers at once with a default (`none`), keeps the caller waiting (`wait`), or lets it go on (`later`)."""

    suspends = False

    def __init__(
        self, name: str, reply: Reply, *, default: Any = None, timeout: float = 30.0, request: Any = None
    ) -> None:
        self._name, self._reply, self._request = name, reply, request
        self._default = f"[{name} rendered on client]" if default is None else default
        self._patience = timeout if reply == "wait" else None

    def compile(self) -> Start:
        return self._answer

    def _answer(self, running: Running) -> Awaitable[Any]:
        return self._respond()

    async def _respond(self) -> Any:
        if self._reply == "none":
            return self._default if isinstance(self._default, Done) else Done(self._default)
        message = f"{self._name} waits for an answer; it will arrive later."
        return Pending("result", message=message, request=self._request, patience=self._patience)
