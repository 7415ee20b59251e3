"""Lock: the definition that was trusted first stays the one that is trusted, until a person accepts another."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from surehand.core.errors import DefinitionError, NotFound, ToolError
from surehand.providers.mcp.trust.change import Change, shown_name
from surehand.providers.mcp.trust.lockfile import InMemory, LockFile, PinPlace
from surehand.providers.mcp.trust.pins import Pin, Pinned, Pins
from surehand.providers.mcp.trust.sight import Look, Sight, accepted, changes_in, sight

log = logging.getLogger("surehand")

MOST_TOLD = 10
"""Tools that the log names at once."""


class Lock:
    """Pins the definitions of servers' tools on first sight, and finds every one that is different later.

    Its methods read and write a small file: on a loop, call them in a thread.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, frozen: bool = False) -> None:
        if path is None and frozen:
            raise DefinitionError("A frozen lock needs a file to compare with.", fix='name it: "surehand.lock".')
        self.path = None if path is None else Path(path)
        self.frozen = frozen
        self._place: PinPlace = InMemory() if self.path is None else LockFile(self.path)
        self._shown: dict[tuple[str, str], dict[str, Pin]] = {}
        """What was shown before the server itself said it."""

    def look(
        self, server: str, identity: str, definitions: Iterable[Mapping[str, Any]], *, live: bool = True
    ) -> dict[str, Change]:
        """Pin what is new, and give what is not as it was pinned, by the tools' names.

        A server that is another one by now is one change, given for each of its tools. What cannot be pinned at all is
        a change as well. A frozen lock pins nothing: what is new is a change.

        Args:
            live: whether the server itself says so. What is only remembered of it is pinned once the server says the
                same, and a change if it says something else.
        """
        given = list(definitions)
        pins, shown = self._place.read(), self._shown.get((server, identity), {})
        how = Look(frozen=self.frozen, live=live, shown=shown)
        seen = sight(pins, server, identity, given, how)
        if not live:
            self._shown[server, identity] = {**seen.first, **shown}
        if self.frozen or seen.pins == pins:
            return seen.changes
        return self._kept(server, identity, given, how, pins, seen)

    def changes(self) -> list[Change]:
        """All that is quarantined."""
        return list(changes_in(self._place.read()))

    def servers(self) -> dict[str, list[str]]:
        """The names of the tools that are pinned, by server."""
        return {server: sorted(known.tools) for server, known in sorted(self._place.read().servers.items())}

    def accept(self, server: str, *tools: str, shown: Collection[str] | None = None) -> list[str]:
        """Pin what is quarantined, all of a server unless tools are named, and say what that was.

        Args:
            shown: the hashes that somebody has looked at; if anything is different by now, nothing is accepted.
        """
        if self.frozen:
            raise DefinitionError(f"The lock file {self.path} is frozen.", fix="accept where it may be written.")
        with self._place.alone():
            pins = self._place.read()
            chosen = _chosen(pins, server, tools)
            for change in chosen:
                _check_shown(change, shown)
                pins = accepted(pins, change)
            self._place.write(pins)
        return [change.name for change in chosen]

    def _kept(
        self, server: str, identity: str, given: list[Mapping[str, Any]], how: Look, pins: Pins, seen: Sight
    ) -> dict[str, Change]:
        """Keep what comes of a look, while nobody else writes; it is done once more if somebody has written since."""
        try:
            with self._place.alone():
                before = self._place.read()
                if before != pins:
                    seen = sight(before, server, identity, given, how)
                if seen.pins != before:
                    self._place.write(seen.pins)
        except DefinitionError as error:
            before = self._place.read()
            seen = sight(before, server, identity, given, how)
            if seen.pins.servers != before.servers:
                raise
            # All that is here is pinned, so a change is known for what it is, even where it cannot be written down.
            log.warning("%s", error)
        _tell(server, before, seen)
        return seen.changes


def _chosen(pins: Pins, server: str, tools: tuple[str, ...]) -> list[Change]:
    """The changes that are meant."""
    waiting = {change.tool: change for change in changes_in(pins) if change.server == server}
    if None in waiting and tools:
        name = shown_name(server, None)
        raise ToolError(f"{name} is another server now. Accept {name} as a whole, or nothing of it.", code="conflict")
    if not tools and waiting:
        return list(waiting.values())
    for tool in tools or (None,):
        if tool not in waiting:
            raise NotFound(f"Nothing of {shown_name(server, tool)} is quarantined.")
    return [waiting[tool] for tool in dict.fromkeys(tools)]


def _check_shown(change: Change, shown: Collection[str] | None) -> None:
    if shown is not None and change.sha256 not in shown:
        name = shown_name(change.server, change.tool)
        problem = f"{name} is not what was shown: it has changed again. Look at it before you accept it."
        raise ToolError(problem, code="conflict")


def _tell(server: str, before: Pins, seen: Sight) -> None:
    """What was pinned, and what was quarantined, each once."""
    known, now = (pins.servers.get(server, Pinned("")) for pins in (before, seen.pins))
    if new := sorted(now.tools.keys() - known.tools.keys()):
        names = ", ".join(shown_name(server, tool) for tool in new[:MOST_TOLD])
        more = f" and {len(new) - MOST_TOLD} more" if len(new) > MOST_TOLD else ""
        log.info("Pinned on first sight: %s%s", names, more)
    told = {change.sha256 for change in changes_in(before) if change.server == server}
    changes = {change.summary: change for change in seen.changes.values() if change.sha256 not in told}
    for number, change in enumerate(changes.values()):
        if number == MOST_TOLD:
            log.warning("Nor are %d further tools of %s trusted.", len(changes) - number, shown_name(server, None))
            break
        if not change.sha256:
            log.warning("Not trusted: %s.", change.summary)
        else:
            log.warning("Quarantined: %s. `surehand lock diff` shows it.", change.summary)
