"""What a provider may support beside `tools` and `invoke`: small protocols, each a method or two that it defines.

A provider need not inherit from them. The runtime looks for their methods once, when the provider is added
(`core/provider_abilities.py`). Programs reach this module as `surehand.protocols`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from surehand.core.call import Call, Principal
from surehand.core.context import Context
from surehand.core.outcome import Failed

# Start and stop


class Startable(Protocol):
    """Has something to start: a connection or a process."""

    async def start(self) -> None:
        """Start the provider. The runtime calls this once, when it starts. Raise `Unavailable` on failure."""


class Stoppable(Protocol):
    """Has something to release."""

    async def stop(self) -> None:
        """Release all resources. The runtime calls this once, when it closes."""


class Traceable(Protocol):
    """Exchanges messages with its service that can be logged."""

    def trace_messages(self) -> None:
        """Log every message from now on. Called before `start`, if the default `trace_mcp` is set."""


# Tools


class Watchable(Protocol):
    """Has tools that change while it runs. `ChangeNotifier` implements it."""

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call the watcher whenever the tools have changed. Returns a function that ends this."""


class ChangeNotifier:
    """A base class for a provider with tools that change: it implements `Watchable`."""

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call the watcher whenever the tools have changed. Returns a function that ends this."""
        # In the instance's dictionary, so that a subclass need not call `super().__init__()`.
        watchers: dict[object, Callable[[], None]] = self.__dict__.setdefault("_watchers", {})
        key = object()
        watchers[key] = watcher
        return lambda: watchers.pop(key, None) and None

    def notify_changed(self) -> None:
        """Call the watchers, because `tools` now returns something else."""
        for watcher in list(self.__dict__.get("_watchers", {}).values()):
            watcher()


class Refreshable(Protocol):
    """Can ask its service again for the tools."""

    async def refresh(self, principal: Principal | None) -> None:
        """Ask the service again for its tools, in the name of a user or session; None: of no one in particular."""


class PerUser(Protocol):
    """Has different tools for different users. It is `Refreshable` as well."""

    def has_tools_for(self, principal: Principal) -> bool:
        """Whether the tools of this user are known; if not, the runtime calls `refresh`."""

    def is_hidden_from(self, principal: Principal, tool: str) -> bool:
        """Whether a tool must not be described to this user, because it belongs to others. `tool` has no namespace."""


class Selective(Protocol):
    """Offers only some of the tools that its service has."""

    def refusal_reason(self, tool: str) -> str | None:
        """Why the provider does not offer a tool that its service has; None if it does not know the tool.

        `tool` has no namespace. A call of such a tool is refused with the reason: `filtered out`, for example.
        """


class Searchable(Protocol):
    """Has more tools than models are shown, and shows a session those that it has looked up."""

    def looked_up_tools(self, principal: Principal) -> Sequence[str]:
        """The tools that this session's model has looked up, oldest first, without the namespace.

        They are described after all others, so that the list of tools only grows at its end.
        """


class Instructive(Protocol):
    """Has instructions for the model."""

    def instructions(self, principal: Principal) -> str:
        """A text for the model of this user: about the tools as a whole, and which cannot be used now, and why."""


# Calls


class CallChecker(Protocol):
    """Knows without asking its service that some calls cannot work."""

    async def check_call(self, call: Call) -> None:
        """Raise a `ToolError` for a call that cannot work. Called before a person is asked to approve the call."""


class Cancellable(Protocol):
    """Can tell its service that a call was cancelled."""

    async def cancel(self, call: Call, reason: str) -> None:
        """Tell the service that a call was cancelled or timed out."""


class Resumable(Protocol):
    """Asks for input with `Pending("input")`, and needs the answer. Without it the answer is the result of the call."""

    async def resume(self, call: Call, state: Any, answer: Any, context: Context) -> Any:
        """Resume a call after its `Pending("input")` was answered; the result may be Pending again."""


class ConnectionBound(Protocol):
    """Can resume a call only where it asked for the input, as over one connection, which may be lost."""

    def can_resume_here(self, state: Any) -> bool:
        """Whether this process can resume a call that waits for input, or only the process that started it can."""

    def resume_failure(self, state: Any) -> Failed | None:
        """The outcome of a call that waits for input and can never be resumed, or None if it still can."""


# For people who operate it


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """How the service of a provider is now."""

    state: str
    """`up`, `starting`, `idle` if nothing has needed it yet, `waiting` for the next attempt, or `closed`."""
    address: str
    """Its command or URL, without secrets."""
    protocol: str = ""
    server_name: str = ""
    server_version: str = ""
    error: str = ""
    """The last error, until the service is up again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBackDefinition:
    """A definition that has changed since it was accepted, so that its tool is not called."""

    tool: str | None
    """None if the service has become another one: then all its tools are held back."""
    sha256: str
    """The hash that accepts exactly this definition."""
    summary: str
    diff: str
    first_seen: str | None = None
    """The day on which it was first listed."""


class Inspectable(Protocol):
    """Can tell how its service is."""

    async def server_status(self) -> ServerStatus:
        """How the service is now. It is not started for this."""


class Reviewable(Protocol):
    """Holds changed definitions back until a person accepts them."""

    async def held_back_definitions(self) -> Sequence[HeldBackDefinition]:
        """The definitions that wait to be accepted."""

    async def accept_definition(self, tool: str | None, sha256: str) -> None:
        """Accept a definition that a person has reviewed; raises `ToolError` if it has changed again."""


class Authorizable(Protocol):
    """Has a service that may ask people to sign in with a browser."""

    def is_signed_in(self, user: str | None) -> bool | None:
        """Whether a user has signed in; None if the service asks nobody to. No request is sent for this."""

    async def sign_in(self, user: str | None, show_url: Callable[[str], Awaitable[None]]) -> None:
        """Sign a user in. `show_url` gets the address to open, unless the user is signed in already.

        Returns when the person is done; raises `ToolError` if that fails or takes too long.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTraits:
    """What the runtime can rely on in a provider, and therefore need not do itself."""

    retries_start: bool = False
    """It retries a failed start itself, and calls its watchers once it has tools."""
    tracks_own_health: bool = False
    """It refuses calls itself while its service is down; the runtime then has no breaker for it."""
    may_gain_tools: bool = False
    """Its service may have tools by now that it had not; the runtime calls `refresh` before a tool is unknown."""
    cancels_promptly: bool = False
    """`invoke` and `resume` end at once when cancelled; the runtime then runs them in the caller's task."""
