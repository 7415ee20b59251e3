"""Scope key: what a call takes from its scope beside its principal, as part of a key.

Calls of two scopes may be equal in tool, definition and arguments, and still do different things: a scope may have a
tool of its own under the same name, and offers its own values to `use(...)`. Cached results, shared flights and
standing approvals have this in their keys.
"""

from __future__ import annotations

from surehand.core.canonical_json import canonical_json
from surehand.runtime.invocation.invocation import CallScope, Invocation


def scope_key(invocation: Invocation) -> list[str]:
    """What a call takes from its scope; empty for a tool of the runtime in a scope that offers nothing."""
    scope = invocation.scope
    tokens = invocation.environment.object_tokens
    name = invocation.listing.name
    parts = [f"offers {tokens.token_of(value)}" for value in scope.offered_values]
    own = None if scope.own_catalogue is None else scope.own_catalogue.find(name)
    if own is not None:
        parts.append(f"tool {tokens.token_of(own.tool)}")
    elif scope.find_session_tool(name) is not None:
        parts.append(f"tool of {canonical_json([scope.principal.user, scope.principal.session])}")
    parts += [f"folder {folder}" for folder in (scope.folders.memory_dir, scope.folders.session_dir) if folder]
    if scope.folders.allowed_paths is not None:
        parts.append(f"limited to {canonical_json(scope.folders.allowed_paths)}")
    return parts


def has_own_parts(scope: CallScope) -> bool:
    """Whether a scope has tools or values of its own, which no other process can restore."""
    return scope.own_catalogue is not None or bool(scope.offered_values)
