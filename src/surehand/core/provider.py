"""Provider: where tools come from when they are not functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from surehand.core.call import Call, Principal
from surehand.core.context import Context
from surehand.core.facets import ToolKind
from surehand.core.outcome import Failed, Outcome
from surehand.core.tool import Tool

OnConflict: TypeAlias = Literal["error", "replace", "rename"]
"""What happens to a tool whose name is taken."""


class Provider:
    """A source of tools. Two verbs matter, `tools` and `invoke`; the rest has defaults.

    A provider never touches the store and never waits for people: it returns a `Pending` instead.
    """

    kind: ToolKind = "rest"
    namespace: str = ""
    timeout: float | None = None
    """Seconds per attempt for its tools that set none themselves."""
    queue: str | None = None
    """The queue of its tools that name none themselves."""
    cache: float | None = None
    """Seconds for which its tools that only read and set none themselves keep a result."""
    required: bool = False
    """Whether a runtime may not start without it; else it is left out, with a warning."""
    retries_start: bool = False
    """Whether it goes on trying after a start that failed, and tells with `changed` when it is there."""
    tracks_own_health: bool = False
    """Whether it knows by itself when the other side is down, and then refuses at once: nobody else counts failures."""
    is_per_user: bool = False
    """Whether it may tell a user what it offers where it does not tell nobody: `refresh_for` asks it."""
    cancels_promptly: bool = False
    """Whether `invoke` and `resume` end at once when they are cancelled: then they run in the task of their caller."""
    on_conflict: OnConflict = "error"

    async def start(self) -> None:
        """Make ready; called once, when the runtime starts. Raise `Unavailable` when that cannot be done."""

    async def stop(self) -> None:
        """Let go of everything; called once, when the runtime closes."""

    async def tools(self) -> Sequence[Tool[..., Any]]:
        """The tools it offers now."""
        raise NotImplementedError(f"{type(self).__name__} must define tools().")

    async def refresh(self) -> None:
        """Look again at what it offers."""

    async def refresh_for(self, principal: Principal) -> None:
        """The same in somebody's name, for a provider that does not tell everybody; unless it is defined, `refresh`."""
        await self.refresh()

    async def load_tools_for(self, principal: Principal) -> bool:
        """Ask in somebody's name what is offered to them, unless that is known; whether anything was asked."""
        return False

    def is_hidden_from(self, principal: Principal, tool: str) -> bool:
        """Whether somebody's model is not told of a tool, given by its own name: it is another user's alone."""
        return False

    def describe_missing_tools(self) -> str:
        """Which of its tools a model cannot use now, and why; empty if it has them all."""
        return ""

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Be told when its tools have changed. Gives what ends that."""
        watchers: dict[object, Callable[[], None]] = self.__dict__.setdefault("_watchers", {})
        key = object()
        watchers[key] = watcher
        return lambda: watchers.pop(key, None) and None

    def notify_changed(self) -> None:
        """Tell those who watch that `tools` gives something else now."""
        for watcher in list(self.__dict__.get("_watchers", {}).values()):
            watcher()

    async def invoke(self, call: Call, context: Context) -> Any:
        """Do the work: `call.tool` is the tool's own name, `call.arguments` a checked mapping."""
        raise NotImplementedError(f"{type(self).__name__} must define invoke().")

    async def resume(self, call: Call, state: Any, answer: Any) -> Outcome | Any:
        """Go on after a `Pending("input")` was answered; may be Pending again."""
        return answer

    async def resume_with_context(self, call: Call, state: Any, answer: Any, context: Context) -> Outcome | Any:
        """The same with a context, for a provider that tells of progress then; unless it is defined, `resume`."""
        return await self.resume(call, state, answer)

    def can_resume_here(self, state: Any) -> bool:
        """Whether a call that waits for input can go on here, and need not go on where it was begun."""
        return True

    def resume_failure(self, state: Any) -> Failed | None:
        """What became of a call that waits for input, where no answer can reach the other side any more."""
        return None

    async def cancel(self, call: Call, reason: str) -> None:
        """A call was cancelled or timed out: tell the other side, if it can be told."""

    def instructions(self) -> str:
        """What a model should know about these tools as a whole."""
        return ""

    def instructions_for(self, principal: Principal) -> str:
        """All that somebody's model is told of it: unless it is defined, the instructions and what is missing."""
        return "\n\n".join(text for text in (self.instructions().strip(), self.describe_missing_tools()) if text)
