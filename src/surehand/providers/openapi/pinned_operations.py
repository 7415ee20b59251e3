"""Operations and the lock file: one whose definition differs from its pin is held back until a person accepts it.

Nothing is compiled for it: the definition that is pinned is a digest of what the document says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from surehand.core.errors import Denied, NotFound
from surehand.core.tool import Tool
from surehand.http.errors import mark_unsent
from surehand.providers.openapi.document import Document, UnusableOperation
from surehand.providers.openapi.document_limits import MAX_ALTERNATIVES
from surehand.providers.openapi.operation_digest import OperationDigests
from surehand.providers.openapi.operations import Operation
from surehand.providers.openapi.parameters import iter_parameters
from surehand.providers.trust.change import DefinitionChange
from surehand.providers.trust.comparison import PinLimits
from surehand.providers.trust.lock import DefinitionLock

MAX_NAMED_HELD_BACK = 10
LIMITS = PinLimits(max_pins=50_000, max_bytes=24 << 20)
"""A document is given by the developer, and cannot grow while a program runs, so it may have more than a server."""


class PinnedOperations:
    """Compares the operations of one provider with a lock file, if there is one."""

    def __init__(self, namespace: str, lock: Path | None, *, frozen: bool) -> None:
        self._namespace = namespace
        self._lock = None if lock is None else DefinitionLock(lock, frozen=frozen, limits=LIMITS)
        self._changes: Mapping[str, DefinitionChange] = {}
        self._identity = ""
        self._definitions: dict[str, dict[str, Any]] = {}
        self._tools: list[Tool[..., Any]] = []

    @property
    def is_active(self) -> bool:
        """Whether there is a lock file."""
        return self._lock is not None

    def check(
        self, address: str, document: Document, operations: Mapping[str, Operation], tools: Iterable[Tool[..., Any]]
    ) -> None:
        """Pin new operations, and find those that differ from their pins. Reads and writes the file."""
        self._identity = f"openapi {address}".strip()
        self._tools = list(tools)
        digests = OperationDigests(document)
        self._definitions = {
            each.name: _definition(each, document, operations[each.name], digests) for each in self._tools
        }
        self.compare()

    def compare(self) -> bool:
        """Compare with the file again: a person may have accepted a change. Returns whether anything is different."""
        assert self._lock is not None
        before = self._changes
        self._changes = self._lock.check(self._namespace, self._identity, self._definitions.values())
        return self._changes != before

    @property
    def tools(self) -> list[Tool[..., Any]]:
        """The tools of all operations that can be called; those that are held back are not shown to models."""
        return [_unlisted(each) if each.name in self._changes else each for each in self._tools]

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

    def read_held_back(self) -> list[DefinitionChange]:
        """The changes of this document that wait to be accepted."""
        changes = [] if self._lock is None else self._lock.changes()
        return [each for each in changes if each.namespace == self._namespace]

    def accept(self, tool: str | None, sha256: str) -> None:
        """Accept a reviewed definition; raises `ToolError` if it is not held back, or has changed again."""
        if self._lock is None:
            raise NotFound(f"{self._namespace} has no lock file, and holds nothing back.")
        names = [] if tool is None else [tool]
        self._lock.accept(self._namespace, *names, reviewed_hashes=[sha256])

    def summary(self) -> str:
        """Which operations are held back, for models."""
        names = list(self._changes)
        if not names:
            return ""
        more = f" and {len(names) - MAX_NAMED_HELD_BACK} more" if len(names) > MAX_NAMED_HELD_BACK else ""
        return f"Held back, because their definitions have changed: {', '.join(names[:MAX_NAMED_HELD_BACK])}{more}."


def _definition(
    tool: Tool[..., Any], document: Document, operation: Operation, digests: OperationDigests
) -> dict[str, Any]:
    """What a person accepts: what the model reads, and the request that it makes."""
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": {**_outline(document, operation), "sha256": digests.digest(operation)},
        "annotations": {"request": tool.where, "readOnlyHint": tool.repeatable, "server": tool.presentation.version},
    }


def _outline(document: Document, operation: Operation) -> dict[str, Any]:
    """The parameters and the types of the body, for people who compare two definitions."""
    try:
        parameters = [f"{each.value['in']}: {each.value['name']}" for each in iter_parameters(document, operation)]
        body = document.resolve(operation.definition.get("requestBody"), operation.source).value
    except UnusableOperation:
        return {}
    content = body.get("content") if isinstance(body, dict) else None
    return {
        "parameters": parameters,
        **({"body": sorted(islice(content, MAX_ALTERNATIVES))} if isinstance(content, dict) else {}),
    }


def _unlisted(tool: Tool[..., Any]) -> Tool[..., Any]:
    return tool.evolve(presentation=replace(tool.presentation, listed=False))
