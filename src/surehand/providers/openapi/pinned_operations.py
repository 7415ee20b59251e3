"""Operations and the lock file: one whose definition differs from its pin is held back until a person accepts it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from surehand.core.errors import Denied
from surehand.core.tool import Tool
from surehand.http.errors import mark_unsent
from surehand.providers.openapi.document import UnusableOperation
from surehand.providers.trust.change import DefinitionChange
from surehand.providers.trust.fingerprint import hash_json
from surehand.providers.trust.lock import DefinitionLock

MAX_NAMED_HELD_BACK = 10


class PinnedOperations:
    """Compares the operations of one provider with a lock file, if there is one."""

    def __init__(self, namespace: str, lock: Path | None, *, frozen: bool) -> None:
        self._namespace = namespace
        self._lock = None if lock is None else DefinitionLock(lock, frozen=frozen)
        self._changes: Mapping[str, DefinitionChange] = {}

    @property
    def is_active(self) -> bool:
        """Whether there is a lock file. Comparing with it compiles every operation."""
        return self._lock is not None

    def check(self, address: str, tools: Iterable[Tool[..., Any]]) -> list[Tool[..., Any]]:
        """Pin new operations; those that differ from their pins are not shown to models. Reads and writes the file."""
        assert self._lock is not None
        usable: dict[str, Tool[..., Any]] = {}
        definitions: list[dict[str, Any]] = []
        for each in tools:
            try:
                definitions.append(_definition(each))
            except UnusableOperation:
                continue  # it cannot be called, and is in `skipped` now
            usable[each.name] = each
        self._changes = self._lock.check(self._namespace, f"openapi {address}".strip(), definitions)
        return [_unlisted(each) if name in self._changes else each for name, each in usable.items()]

    def is_held_back(self, name: str) -> bool:
        """Whether an operation differs from its pin."""
        return name in self._changes

    def refuse_held_back(self, name: str) -> None:
        """Raise `Denied` for an operation that is held back."""
        change = self._changes.get(name)
        if change is not None:
            event = "has changed since it was accepted" if change.old else "was never accepted"
            raise mark_unsent(
                Denied(
                    f"{name} of {self._namespace} is held back, because its definition {event} ({change.summary}). "
                    "A person looks at it with `surehand lock diff` and accepts it with `surehand lock accept`."
                )
            )

    def summary(self) -> str:
        """Which operations are held back, for models."""
        names = list(self._changes)
        if not names:
            return ""
        more = f" and {len(names) - MAX_NAMED_HELD_BACK} more" if len(names) > MAX_NAMED_HELD_BACK else ""
        return f"Held back, because their definitions have changed: {', '.join(names[:MAX_NAMED_HELD_BACK])}{more}."


def _definition(tool: Tool[..., Any]) -> dict[str, Any]:
    """What a person accepts: what the model reads, and the request that it makes."""
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": _schema_outline(tool.schema),
        "annotations": {"request": tool.where, "readOnlyHint": tool.repeatable},
    }


def _schema_outline(schema: dict[str, Any]) -> dict[str, Any]:
    """The arguments with their types, for people, and a digest of the whole schema, which may be very large."""
    types = {name: str(each.get("type", "any")) for name, each in schema["properties"].items()}
    return {"properties": types, "required": schema.get("required", []), "sha256": hash_json(schema)}


def _unlisted(tool: Tool[..., Any]) -> Tool[..., Any]:
    return tool.evolve(presentation=replace(tool.presentation, listed=False))
