"""Scope key: what a call takes from its scope beside its principal, as part of a key.

Calls of two scopes may be equal in tool, definition and arguments, and still do different things: a scope may have a
tool of its own under the same name, and offers its own values to `use(...)`. Cached results, shared flights and
standing approvals have this in their keys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import ref

from surehand.core.canonical_json import canonical_json
from surehand.core.ids import new_id

if TYPE_CHECKING:
    from surehand.runtime.invocation.invocation import Invocation
    from surehand.runtime.scope import Scope


class ObjectTokens:
    """Tokens for objects: an object keeps its token while it lives, and no other object, in any process, gets it."""

    def __init__(self) -> None:
        self._prefix = new_id()
        self._numbers = count()
        self._tokens: dict[int, tuple[Callable[[], Any], str]] = {}
        """Weak reference and token by `id`, which Python uses again for a later object."""

    def token_of(self, value: Any) -> str:
        """The token of an object; plain values that are equal, such as texts, have the same one."""
        known = self._tokens.get(id(value))
        if known is not None and known[0]() is value:
            return known[1]
        try:
            reference = ref(value, partial(self._forget, id(value)))
        except TypeError:
            return self._token_of_plain_value(value)
        token = self._new_token()
        self._tokens[id(value)] = (reference, token)
        return token

    def _token_of_plain_value(self, value: Any) -> str:
        """The token of a text, number, list or other value without weak references: its type and content."""
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        try:
            return f"{kind} {canonical_json(value)}"
        except Exception:  # noqa: BLE001 - its serialization is foreign code; a new token is never found again
            return self._new_token()

    def _new_token(self) -> str:
        return f"{self._prefix}-{next(self._numbers)}"

    def _forget(self, object_id: int, reference: object) -> None:
        known = self._tokens.get(object_id)
        if known is not None and known[0] is reference:
            del self._tokens[object_id]


def scope_key(invocation: Invocation) -> list[str]:
    """What a call takes from its scope; empty for a tool of the runtime in a scope that offers nothing."""
    scope = invocation.scope
    services = scope.services
    tokens = services.object_tokens
    name = invocation.listing.name
    parts = [f"offers {tokens.token_of(value)}" for value in scope.offered_values]
    own = None if scope.own_catalogue is None else scope.own_catalogue.find(name)
    if own is not None:
        parts.append(f"tool {tokens.token_of(own.tool)}")
    elif services.offered_tools.find(name, scope.principal) is not None:
        parts.append(f"tool of {canonical_json([scope.principal.user, scope.principal.session])}")
    parts += [f"folder {folder}" for folder in (scope.folders.memory_dir, scope.folders.session_dir) if folder]
    if scope.folders.allowed_paths is not None:
        parts.append(f"limited to {canonical_json(scope.folders.allowed_paths)}")
    return parts


def has_own_parts(scope: Scope) -> bool:
    """Whether a scope has tools or values of its own, which no other process can restore."""
    return scope.own_catalogue is not None or bool(scope.offered_values)
