"""Handler of client tools: a browser, a person or a webhook does the work, so the handler returns a Pending outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias

from surehand.core.context import RunningCall
from surehand.core.facets import CallLimits, Presentation
from surehand.core.handler import StartHandler
from surehand.core.outcome import Pending

ReplyMode: TypeAlias = Literal["none", "wait", "later"]
"""`none`: the tool returns its default at once. `wait`: the caller waits for the answer. `later`: it does not wait."""
DEFAULT_REPLY_TIMEOUT_SECONDS = 30.0
"""How long the caller of a tool with `reply="wait"` waits, if the tool has no `timeout`."""


@dataclass(frozen=True, slots=True)
class ClientHandler:
    """Returns the default value, or a Pending outcome that the client's answer settles."""

    can_suspend: ClassVar[bool] = False
    may_read_current_call: ClassVar[bool] = False

    name: str
    reply: ReplyMode
    default: Any = None
    request: Any = None
    timeout: float | Callable[[dict[str, Any]], float | None] | None = None
    expires: float | None = None

    @property
    def waits(self) -> bool:
        """Whether its calls wait for an answer."""
        return self.reply != "none"

    def with_facets(self, name: str, limits: CallLimits, presentation: Presentation) -> ClientHandler:
        """The handler for a tool with this name and these facets."""
        request = presentation.display or None
        return replace(self, name=name, request=request, timeout=limits.timeout, expires=limits.expires)

    def compile(self) -> StartHandler:
        return self._start

    def _start(self, call: RunningCall) -> Awaitable[Any]:
        return self._build_outcome(call)

    async def _build_outcome(self, call: RunningCall) -> Any:
        if self.reply == "none":
            return f"[{self.name} rendered on client]" if self.default is None else self.default
        return Pending(
            "result",
            message=f"{self.name} waits for an answer.",
            request=self.request,
            reply_timeout=self.reply_timeout(call.arguments),
            time_to_live=self._time_to_live(call.arguments),
        )

    def reply_timeout(self, arguments: dict[str, Any]) -> float | None:
        """Seconds that the caller waits for the answer; None if it does not."""
        if self.reply != "wait":
            return None
        seconds = self._seconds(arguments)
        return DEFAULT_REPLY_TIMEOUT_SECONDS if seconds is None else seconds

    def _time_to_live(self, arguments: dict[str, Any]) -> float | None:
        """Seconds until the call expires; None for the runtime's default.

        With `reply="wait"` the timeout does not end the call: an answer after the caller has left still counts.
        """
        return self.expires if self.expires is not None or self.reply == "wait" else self._seconds(arguments)

    def _seconds(self, arguments: dict[str, Any]) -> float | None:
        return self.timeout(arguments) if callable(self.timeout) else self.timeout
