"""Object tokens: names for objects of this process, for the keys of cached results and standing approvals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any
from weakref import ref

from surehand.core.canonical_json import canonical_json
from surehand.core.ids import new_id


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
