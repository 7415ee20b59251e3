"""`DefinitionLock` trusts the first definition of a tool that it sees, until a person accepts another.

Used by the MCP provider for every listing, and by `surehand lock`. It imports no provider, so that others can use it.
"""

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
    PinLimits,
    accept_change,
    compare_with_pins,
    quarantined_changes,
)
from surehand.providers.trust.lock_file import LockFile, MemoryPinStorage, PinStorage
from surehand.providers.trust.pins import Pin, Pins, ProviderPins

log = logging.getLogger("surehand")

MAX_LOGGED_TOOLS = 10
"""Tools that one call of `check` names in the log."""


class DefinitionLock:
    """Pins the definitions of tools on first sight, and quarantines every one that differs later.

    Its methods read and write a file: call them in a thread from an event loop. Without a path, pins are in memory.

    Args:
        limits: how much is pinned of one provider; those of a server, if left out.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, frozen: bool = False, limits: PinLimits | None = None
    ) -> None:
        if path is None and frozen:
            fix = 'give its path, for example "surehand.lock".'
            raise DefinitionError("A frozen lock needs a file to compare with.", fix=fix)
        self.path = None if path is None else Path(path)
        self.frozen = frozen
        self._limits = limits
        self._storage: PinStorage = MemoryPinStorage() if self.path is None else LockFile(self.path)
        self._unconfirmed: dict[tuple[str, str], dict[str, Pin]] = {}
        """Definitions from a cache that the provider has not listed yet, by namespace and identity."""

    def check(
        self, namespace: str, identity: str, definitions: Iterable[Mapping[str, Any]], *, is_live: bool = True
    ) -> dict[str, DefinitionChange]:
        """Pin new definitions, and return those that differ from their pins, by the tools' names.

        Another identity under a pinned namespace is one change, returned for each of its tools. A definition that
        cannot be pinned at all is a change as well. A frozen lock pins nothing: a new definition is a change.

        Args:
            identity: which provider it is: the same text each time, for example its URL.
            is_live: whether the provider itself lists the definitions now. Those from a cache are pinned once the
                provider lists the same. If it lists others, they are a change where there is a lock file; without
                one nothing was pinned between two runs, and the new definition is taken and logged.
        """
        listed = list(definitions)
        pins = self._storage.read()
        unconfirmed = self._unconfirmed.get((namespace, identity), {})
        if is_live and self.path is None and unconfirmed:
            self._log_taken_definitions(namespace, identity, listed, unconfirmed)
            unconfirmed = self._unconfirmed[namespace, identity] = {}
        mode = ComparisonMode(frozen=self.frozen, is_live=is_live, unconfirmed=unconfirmed, limits=self._limits)
        comparison = compare_with_pins(pins, namespace, identity, listed, mode)
        if not is_live:
            self._unconfirmed[namespace, identity] = {**comparison.new_pins, **unconfirmed}
        if self.frozen or comparison.pins == pins:
            return comparison.changes
        return self._store_comparison(namespace, identity, listed, mode, pins, comparison)

    def _log_taken_definitions(
        self, namespace: str, identity: str, listed: list[Mapping[str, Any]], before: Mapping[str, Pin]
    ) -> None:
        """Log the definitions that differ from those of the last run, and that are taken without a lock file."""
        last_run = Pins({namespace: ProviderPins(identity, before)})
        changes = compare_with_pins(last_run, namespace, identity, listed, ComparisonMode(frozen=True)).changes
        taken = [change for change in changes.values() if change.sha256 and change.old]
        for change in taken[:MAX_LOGGED_TOOLS]:
            log.warning("Changed since the last run, and taken, because there is no lock file: %s.", change.summary)
        if len(taken) > MAX_LOGGED_TOOLS:
            log.warning("%d more definitions of %s have changed.", len(taken) - MAX_LOGGED_TOOLS, namespace)

    def changes(self) -> list[DefinitionChange]:
        """Every quarantined definition."""
        return list(quarantined_changes(self._storage.read()))

    def pinned_tools(self) -> dict[str, list[str]]:
        """The names of the pinned tools, by namespace."""
        trusted = self._storage.read().trusted
        return {namespace: sorted(provider.tools) for namespace, provider in sorted(trusted.items())}

    def accept(self, namespace: str, *tools: str, reviewed_hashes: Collection[str] | None = None) -> list[str]:
        """Accept quarantined definitions, all of a namespace unless tools are named, and return their names.

        Args:
            reviewed_hashes: hashes of the changes that a person has reviewed; if any other has come, none is accepted.
        """
        if self.frozen:
            fix = "accept the change on a machine where the lock is not frozen."
            raise DefinitionError(f"The lock file {self.path} is frozen.", fix=fix)
        with self._storage.exclusive():
            pins = self._storage.read()
            selected = _select_changes(pins, namespace, tools)
            for change in selected:
                _check_reviewed(change, reviewed_hashes)
                pins = accept_change(pins, change)
            self._storage.write(pins)
        return [change.name for change in selected]

    def _store_comparison(
        self,
        namespace: str,
        identity: str,
        definitions: list[Mapping[str, Any]],
        mode: ComparisonMode,
        pins: Pins,
        comparison: PinComparison,
    ) -> dict[str, DefinitionChange]:
        """Store the pins under the write lock; compare again if another process has written since they were read."""
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
            # Every listed tool is pinned already, so changes are found although the quarantine cannot be written.
            log.warning("%s", error)
        _log_changes(namespace, before, comparison, has_file=self.path is not None)
        return comparison.changes


def _select_changes(pins: Pins, namespace: str, tools: tuple[str, ...]) -> list[DefinitionChange]:
    """The quarantined changes of the named tools, or of the whole namespace."""
    quarantined = {change.tool: change for change in quarantined_changes(pins) if change.namespace == namespace}
    if None in quarantined and tools:
        name = escaped_display_name(namespace, None)
        raise ToolError(f"{name} is another server now. Accept {name} as a whole, or nothing of it.", code="conflict")
    if not tools and quarantined:
        return list(quarantined.values())
    for tool in tools or (None,):
        if tool not in quarantined:
            raise NotFound(f"No change of {escaped_display_name(namespace, tool)} is held back.")
    return [quarantined[tool] for tool in dict.fromkeys(tools)]


def _check_reviewed(change: DefinitionChange, reviewed_hashes: Collection[str] | None) -> None:
    if reviewed_hashes is not None and change.sha256 not in reviewed_hashes:
        name = escaped_display_name(change.namespace, change.tool)
        problem = f"{name} is not what was shown: it has changed again. Look at it before you accept it."
        raise ToolError(problem, code="conflict")


def _log_changes(namespace: str, before: Pins, comparison: PinComparison, *, has_file: bool) -> None:
    """Log each new pin and each new change once."""
    empty = ProviderPins("")
    pinned_before = before.trusted.get(namespace, empty).tools.keys()
    pinned_now = comparison.pins.trusted.get(namespace, empty).tools.keys()
    if new := sorted(pinned_now - pinned_before):
        names = ", ".join(escaped_display_name(namespace, tool) for tool in new[:MAX_LOGGED_TOOLS])
        more = f" and {len(new) - MAX_LOGGED_TOOLS} more" if len(new) > MAX_LOGGED_TOOLS else ""
        log.info("Pinned on first sight: %s%s", names, more)
    logged = {change.sha256 for change in quarantined_changes(before) if change.namespace == namespace}
    changes = {change.summary: change for change in comparison.changes.values() if change.sha256 not in logged}
    for number, change in enumerate(changes.values()):
        if number == MAX_LOGGED_TOOLS:
            name = escaped_display_name(namespace, None)
            log.warning("%d more tools of %s are not trusted.", len(changes) - number, name)
            break
        if not change.sha256:
            log.warning("Not trusted: %s.", change.summary)
        elif has_file:
            log.warning("Quarantined: %s. Review it with `surehand lock diff`.", change.summary)
        else:
            log.warning("Held back until the program is started again: %s.", change.summary)
