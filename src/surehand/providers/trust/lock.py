"""Lock: the definition that was trusted first stays the one that is trusted, until a person accepts another."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from surehand.core.errors import DefinitionError, NotFound, ToolError
from surehand.providers.trust.change import DefinitionChange, escaped_display_name
from surehand.providers.trust.comparison import (
    ComparisonMode,
    PinComparison,
    accept_change,
    compare_with_pins,
    quarantined_changes,
)
from surehand.providers.trust.lock_file import LockFile, MemoryPinStorage, PinStorage
from surehand.providers.trust.pins import Pin, Pins, ProviderPins

log = logging.getLogger("surehand")

MAX_LOGGED_TOOLS = 10
"""Tools that the log names at once."""


class DefinitionLock:
    """Pins the definitions of servers' tools on first sight, and finds every one that is different later.

    Its methods read and write a small file: on a loop, call them in a thread.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, frozen: bool = False) -> None:
        if path is None and frozen:
            raise DefinitionError("A frozen lock needs a file to compare with.", fix='name it: "surehand.lock".')
        self.path = None if path is None else Path(path)
        self.frozen = frozen
        self._storage: PinStorage = MemoryPinStorage() if self.path is None else LockFile(self.path)
        self._unconfirmed: dict[tuple[str, str], dict[str, Pin]] = {}
        """What was shown before the server itself said it."""

    def check(
        self, namespace: str, identity: str, definitions: Iterable[Mapping[str, Any]], *, is_live: bool = True
    ) -> dict[str, DefinitionChange]:
        """Pin what is new, and give what is not as it was pinned, by the tools' names.

        A server that is another one by now is one change, given for each of its tools. What cannot be pinned at all is
        a change as well. A frozen lock pins nothing: what is new is a change.

        Args:
            live: whether the server itself says so. What is only remembered of it is pinned once the server says the
                same, and a change if it says something else.
        """
        given = list(definitions)
        pins, shown = self._storage.read(), self._unconfirmed.get((namespace, identity), {})
        how = ComparisonMode(frozen=self.frozen, is_live=is_live, unconfirmed=shown)
        seen = compare_with_pins(pins, namespace, identity, given, how)
        if not is_live:
            self._unconfirmed[namespace, identity] = {**seen.new_pins, **shown}
        if self.frozen or seen.pins == pins:
            return seen.changes
        return self._store_comparison(namespace, identity, given, how, pins, seen)

    def changes(self) -> list[DefinitionChange]:
        """All that is quarantined."""
        return list(quarantined_changes(self._storage.read()))

    def pinned_tools(self) -> dict[str, list[str]]:
        """The names of the tools that are pinned, by server."""
        return {server: sorted(known.tools) for server, known in sorted(self._storage.read().trusted.items())}

    def accept(self, namespace: str, *tools: str, reviewed_hashes: Collection[str] | None = None) -> list[str]:
        """Pin what is quarantined, all of a server unless tools are named, and say what that was.

        Args:
            shown: the hashes that somebody has looked at; if anything is different by now, nothing is accepted.
        """
        if self.frozen:
            raise DefinitionError(f"The lock file {self.path} is frozen.", fix="accept where it may be written.")
        with self._storage.exclusive():
            pins = self._storage.read()
            chosen = _select_changes(pins, namespace, tools)
            for change in chosen:
                _check_reviewed(change, reviewed_hashes)
                pins = accept_change(pins, change)
            self._storage.write(pins)
        return [change.name for change in chosen]

    def _store_comparison(
        self,
        namespace: str,
        identity: str,
        definitions: list[Mapping[str, Any]],
        mode: ComparisonMode,
        pins: Pins,
        comparison: PinComparison,
    ) -> dict[str, DefinitionChange]:
        """Keep what comes of a look, while nobody else writes; it is done once more if somebody has written since."""
        try:
            with self._storage.exclusive():
                before = self._storage.read()
                if before != pins:
                    comparison = compare_with_pins(before, namespace, identity, definitions, mode)
                if comparison.pins != before:
                    self._storage.write(comparison.pins)
        except DefinitionError as error:
            before = self._storage.read()
            comparison = compare_with_pins(before, namespace, identity, definitions, mode)
            if comparison.pins.trusted != before.trusted:
                raise
            # All that is here is pinned, so a change is known for what it is, even where it cannot be written down.
            log.warning("%s", error)
        _log_changes(namespace, before, comparison)
        return comparison.changes


def _select_changes(pins: Pins, namespace: str, tools: tuple[str, ...]) -> list[DefinitionChange]:
    """The changes that are meant."""
    waiting = {change.tool: change for change in quarantined_changes(pins) if change.namespace == namespace}
    if None in waiting and tools:
        name = escaped_display_name(namespace, None)
        raise ToolError(f"{name} is another server now. Accept {name} as a whole, or nothing of it.", code="conflict")
    if not tools and waiting:
        return list(waiting.values())
    for tool in tools or (None,):
        if tool not in waiting:
            raise NotFound(f"Nothing of {escaped_display_name(namespace, tool)} is quarantined.")
    return [waiting[tool] for tool in dict.fromkeys(tools)]


def _check_reviewed(change: DefinitionChange, reviewed_hashes: Collection[str] | None) -> None:
    if reviewed_hashes is not None and change.sha256 not in reviewed_hashes:
        name = escaped_display_name(change.namespace, change.tool)
        problem = f"{name} is not what was shown: it has changed again. Look at it before you accept it."
        raise ToolError(problem, code="conflict")


def _log_changes(namespace: str, before: Pins, comparison: PinComparison) -> None:
    """What was pinned, and what was quarantined, each once."""
    known, now = (pins.trusted.get(namespace, ProviderPins("")) for pins in (before, comparison.pins))
    if new := sorted(now.tools.keys() - known.tools.keys()):
        names = ", ".join(escaped_display_name(namespace, tool) for tool in new[:MAX_LOGGED_TOOLS])
        more = f" and {len(new) - MAX_LOGGED_TOOLS} more" if len(new) > MAX_LOGGED_TOOLS else ""
        log.info("Pinned on first sight: %s%s", names, more)
    told = {change.sha256 for change in quarantined_changes(before) if change.namespace == namespace}
    changes = {change.summary: change for change in comparison.changes.values() if change.sha256 not in told}
    for number, change in enumerate(changes.values()):
        if number == MAX_LOGGED_TOOLS:
            log.warning(
                "Nor are %d further tools of %s trusted.", len(changes) - number, escaped_display_name(namespace, None)
            )
            break
        if not change.sha256:
            log.warning("Not trusted: %s.", change.summary)
        else:
            log.warning("Quarantined: %s. `surehand lock diff` shows it.", change.summary)
