"""Identity: on whose behalf a request is made, and what it may do. Authentication makes it; every route asks it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

ALL_SCOPES = "*"
SEE_ALL_CALLS = "calls:all"
"""The scope that shows the calls, waits, events and audit rows of all users."""
DEFAULT_SCOPES = ("tools:*", "spaces:*", "agents:*")
MAX_USER_NAME_LENGTH = 200
_SCOPE_KINDS = ("tools", "spaces", "agents", "calls")


@dataclass(frozen=True, slots=True)
class Identity:
    """A user with scopes: `tools:`, `spaces:` and `agents:` with a glob, `calls:all`, and any name for answer rules.

    The scope `*` allows everything, and is the only one that an identity without a user may have: it is the operator.
    """

    user: str | None
    scopes: frozenset[str] = frozenset(DEFAULT_SCOPES)
    rate: str | None = None
    """Requests that it may make in a time, as `60/min`; None for any number."""
    concurrent: int | None = None
    """Requests that it may have in flight; None for the limit of the gateway."""
    token_name: str = ""
    """The name of its token. Two tokens of one user have limits of their own."""
    expires_at: float | None = None
    """When its token expires, in seconds since the epoch; an event stream ends then."""

    def __post_init__(self) -> None:
        given: Any = self.scopes
        if isinstance(given, str):
            raise TypeError(f"scopes must be a collection of strings, got {given!r}.")
        object.__setattr__(self, "scopes", frozenset(self.scopes))
        if self.user is None:
            if ALL_SCOPES not in self.scopes:
                raise ValueError("An identity without a user must have the scope '*'. Give it a user.")
        elif not self.user or len(self.user) > MAX_USER_NAME_LENGTH or not _is_storable(self.user):
            raise ValueError(f"A user is a text of 1 to {MAX_USER_NAME_LENGTH} characters without NUL or surrogates.")

    @property
    def is_operator(self) -> bool:
        """Whether it may do everything."""
        return ALL_SCOPES in self.scopes

    @property
    def sees_all_calls(self) -> bool:
        """Whether it may see the calls of all users."""
        return self.is_operator or SEE_ALL_CALLS in self.scopes

    def may_use_tool(self, name: str) -> bool:
        """Whether it may see and call a tool."""
        return self._has_glob("tools", name)

    def may_use_space(self, space_id: str) -> bool:
        """Whether it may see a space, if it is a member."""
        return self._has_glob("spaces", space_id)

    def may_use_agent(self, name: str) -> bool:
        """Whether it may run an agent. The agent's calls may use tools that it may not call itself."""
        return self._has_glob("agents", name)

    @property
    def has_all_tools(self) -> bool:
        """Whether no tool is forbidden to it."""
        return self.is_operator or "tools:*" in self.scopes

    def _has_glob(self, kind: str, name: str) -> bool:
        if self.is_operator:
            return True
        globs = (scope[len(kind) + 1 :] for scope in self.scopes if scope.startswith(f"{kind}:"))
        return any(fnmatchcase(name, glob) for glob in globs)

    @property
    def limit_key(self) -> str:
        """What its requests are counted under."""
        return f"{self.token_name}\0{self.user or ''}"


OPERATOR = Identity(None, frozenset({ALL_SCOPES}))
"""The identity of every request where no authentication is configured: every client is an operator of the gateway."""


def unknown_scope(scopes: Iterable[str]) -> str | None:
    """The first scope that names a kind, as in `tool:x`, which does not exist; None if all are fine."""
    for scope in scopes:
        kind, colon, rest = scope.partition(":")
        is_known = kind in _SCOPE_KINDS and rest and (kind != "calls" or scope == SEE_ALL_CALLS)
        if not scope or (colon and not is_known):
            return scope
    return None


def _is_storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
