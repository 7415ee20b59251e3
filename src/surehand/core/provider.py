"""The base class of providers: sources of tools that are not Python functions, such as MCP servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from surehand.core.call import Call, Principal
from surehand.core.context import Context
from surehand.core.facets import ToolKind
from surehand.core.outcome import Failed, Outcome
from surehand.core.tool import Tool

OnConflict: TypeAlias = Literal["error", "replace", "rename"]
"""What the catalogue does with a tool whose name is taken already."""


class Provider:
    """A source of tools. A subclass defines `tools` and `invoke`; everything else has a default.

    A provider never touches the store and never waits for people: it returns a `Pending` outcome instead.
    """

    kind: ToolKind = "rest"
    namespace: str = ""
    timeout: float | None = None
    """Seconds per attempt, for tools without a time limit of their own."""
    queue: str | None = None
    """The queue of tools that do not name one."""
    cache: float | None = None
    """Seconds for which results are cached, for tools that only read and have no `cache` of their own."""
    required: bool = False
    """Whether the runtime fails to start if the provider does; otherwise it starts without it and logs a warning."""
    retries_start: bool = False
    """Whether the provider itself retries a failed start, and calls `notify_changed` once it has tools."""
    tracks_own_health: bool = False
    """Whether the provider refuses calls itself while its service is down; the runtime then has no breaker for it."""
    may_gain_tools: bool = False
    """Whether the service may have tools by now that it had not; the runtime then asks it before a tool is unknown."""
    is_per_user: bool = False
    """Whether users may have different tools; the runtime then calls `refresh_for` and `load_tools_for`."""
    cancels_promptly: bool = False
    """Whether `invoke` and `resume` end at once when cancelled; the runtime then runs them in the caller's task."""
    on_conflict: OnConflict = "error"

    async def start(self) -> None:
        """Start the provider. The runtime calls this once, when it starts. Raise `Unavailable` on failure."""

    async def stop(self) -> None:
        """Release all resources. The runtime calls this once, when it closes."""

    async def tools(self) -> Sequence[Tool[..., Any]]:
        """The tools that the provider offers now."""
        raise NotImplementedError(f"{type(self).__name__} must define tools().")

    async def refresh(self) -> None:
        """Ask the service again for its tools."""

    async def refresh_for(self, principal: Principal) -> None:
        """`refresh` on behalf of one user, for a provider whose users may have different tools."""
        await self.refresh()

    async def load_tools_for(self, principal: Principal) -> bool:
        """Ask the service for the tools of a user, unless they are known; return whether it was asked."""
        return False

    def is_hidden_from(self, principal: Principal, tool: str) -> bool:
        """Whether a tool must not be described to this user, because it belongs to others. `tool` has no namespace."""
        return False

    def refusal_reason(self, tool: str) -> str | None:
        """Why the provider does not offer a tool that its service has; None if it does not know the tool.

        `tool` has no namespace. A call of such a tool is refused with the reason: `filtered out`, for example.
        """
        return None

    def describe_missing_tools(self) -> str:
        """A text for the model that says which tools cannot be used now, and why; empty if all can."""
        return ""

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call the watcher whenever the tools have changed. Returns a function that ends this."""
        watchers: dict[object, Callable[[], None]] = self.__dict__.setdefault("_watchers", {})
        key = object()
        watchers[key] = watcher
        return lambda: watchers.pop(key, None) and None

    def notify_changed(self) -> None:
        """Call the watchers, because `tools` now returns something else."""
        for watcher in list(self.__dict__.get("_watchers", {}).values()):
            watcher()

    def trace_messages(self) -> None:
        """Log every message that is exchanged with the service, if it exchanges messages."""

    async def invoke(self, call: Call, context: Context) -> Any:
        """Run a tool: `call.tool` is its name without the namespace, `call.arguments` the validated arguments."""
        raise NotImplementedError(f"{type(self).__name__} must define invoke().")

    async def resume(self, call: Call, state: Any, answer: Any) -> Outcome | Any:
        """Resume a call after its `Pending("input")` was answered; the result may be Pending again."""
        return answer

    async def resume_with_context(self, call: Call, state: Any, answer: Any, context: Context) -> Outcome | Any:
        """`resume` with a context, for a provider that reports progress while it resumes."""
        return await self.resume(call, state, answer)

    def can_resume_here(self, state: Any) -> bool:
        """Whether this process can resume a call that waits for input, or only the process that started it can."""
        return True

    def resume_failure(self, state: Any) -> Failed | None:
        """The outcome of a call that waits for input and can never be resumed, or None if it still can."""
        return None

    async def cancel(self, call: Call, reason: str) -> None:
        """Tell the service that a call was cancelled or timed out, if it can be told."""

    def instructions(self) -> str:
        """A text for the model about these tools as a whole."""
        return ""

    def instructions_for(self, principal: Principal) -> str:
        """The text for the model of one user: by default the instructions and the description of missing tools."""
        texts = (self.instructions().strip(), self.describe_missing_tools())
        return "\n\n".join(text for text in texts if text)
