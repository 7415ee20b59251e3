"""Provider: where tools come from when they are not functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolwright.core.call import Call
from toolwright.core.context import Context
from toolwright.core.facets import Kind
from toolwright.core.outcome import Outcome
from toolwright.core.tool import Tool


class Provider:
    """A source of tools. Two verbs matter, `tools` and `invoke`; the rest has defaults.

    A provider never touches the store and never waits for people: it returns a `Pending` instead.
    """

    kind: Kind = "rest"
    namespace: str = ""
    timeout: float | None = None
    """Seconds per attempt for its tools that set none themselves."""
    queue: str | None = None
    """The queue of its tools that name none themselves."""
    cache: float | None = None
    """Seconds for which its tools that only read and set none themselves keep a result."""

    async def start(self) -> None:
        """Make ready; called once, when the runtime starts. Raise `Unavailable` when that cannot be done."""

    async def stop(self) -> None:
        """Let go of everything; called once, when the runtime closes."""

    async def tools(self) -> Sequence[Tool[..., Any]]:
        """The tools it offers now."""
        raise NotImplementedError(f"{type(self).__name__} must define tools().")

    async def invoke(self, call: Call, context: Context) -> Any:
        """Do the work: `call.tool` is the tool's own name, `call.arguments` a checked mapping."""
        raise NotImplementedError(f"{type(self).__name__} must define invoke().")

    async def resume(self, call: Call, state: Any, answer: Any) -> Outcome | Any:
        """Go on after a `Pending("input")` was answered; may be Pending again."""
        return answer

    async def cancel(self, call: Call, reason: str) -> None:
        """A call was cancelled or timed out: tell the other side, if it can be told."""

    def instructions(self) -> str:
        """What a model should know about these tools as a whole."""
        return ""
