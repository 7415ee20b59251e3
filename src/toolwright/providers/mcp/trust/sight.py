"""Sight: what one look at a server finds, held against what is pinned of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from toolwright.core.errors import ToolError
from toolwright.providers.mcp.trust.change import Change, shown_name, told
from toolwright.providers.mcp.trust.fingerprint import hashed, parts_of
from toolwright.providers.mcp.trust.pins import Pin, Pinned, Pins, pin
from toolwright.providers.mcp.trust.visible import visible

Listed: TypeAlias = Mapping[str, tuple[Pin, ...]]
"""Every definition that was given for a name: a server may say two things of one tool."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The pins as they are after a look, and what was not as it is pinned."""

    pins: Pins
    changes: dict[str, Change]


def sight(
    pins: Pins, server: str, identity: str, definitions: Iterable[Mapping[str, Any]], *, frozen: bool = False
) -> Sight:
    """Look at a server: what is new is pinned unless the pins are frozen, what is different is quarantined."""
    listed, unfit = _listed(server, identity, definitions)
    known = pins.servers.get(server)
    if known is None:
        known = Pinned(identity)
    if known.identity != identity:
        found = _another(pins, server, identity, listed)
    else:
        found = _same(pins, server, known, listed, frozen=frozen)
    return replace(found, changes=found.changes | unfit)


def changes_in(pins: Pins) -> Iterator[Change]:
    """All that is quarantined; a server that is another one by now is one change."""
    for server, waiting in sorted(pins.quarantined.items()):
        known = pins.servers.get(server, Pinned(waiting.identity))
        if known.identity != waiting.identity:
            yield _server_change(server, known, waiting)
        else:
            for tool, new in sorted(waiting.tools.items()):
                yield _change(server, tool, known.tools.get(tool), new)


def accepted(pins: Pins, change: Change) -> Pins:
    """The pins with what is new in the place of what was pinned."""
    waiting = pins.quarantined[change.server]
    known = pins.servers.get(change.server, Pinned(waiting.identity))
    taken = waiting.tools if change.tool is None else {change.tool: waiting.tools[change.tool]}
    # Tools that a new server has not shown yet stay pinned under its name: there too they could come back changed.
    kept = {tool: pin(waiting.identity, old.definition) for tool, old in known.tools.items()}
    tools = kept | {tool: replace(new, seen=None) for tool, new in taken.items()}
    servers = {**pins.servers, change.server: Pinned(waiting.identity, tools)}
    rest = {tool: new for tool, new in waiting.tools.items() if tool not in taken}
    return Pins(servers, _with(pins.quarantined, change.server, Pinned(waiting.identity, rest) if rest else None))


def _listed(
    server: str, identity: str, definitions: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, tuple[Pin, ...]], dict[str, Change]]:
    """The pins of what is listed, and, as changes, what cannot be pinned at all. What has no name is no tool."""
    listed: dict[str, tuple[Pin, ...]] = {}
    unfit: dict[str, Change] = {}
    today = datetime.now(UTC).date().isoformat()
    for definition in definitions:
        name = definition.get("name")
        if not isinstance(name, str):
            continue
        try:
            listed[name] = (*listed.get(name, ()), pin(identity, definition, today))
        except ToolError as error:
            summary = f"{shown_name(server, name)}: cannot be pinned, {error}"
            unfit[name] = Change(server, name, {}, parts_of(definition), "", summary)
    return listed, unfit


def _same(pins: Pins, server: str, known: Pinned, listed: Listed, *, frozen: bool) -> Sight:
    """The server that is pinned: tool by tool."""
    first = {} if frozen else {name: replace(found[0], seen=None) for name, found in listed.items()}
    tools = first | dict(known.tools)
    waiting = pins.quarantined.get(server)
    before = waiting.tools if waiting is not None and waiting.identity == known.identity else {}
    after = {name: old for name, old in before.items() if name not in listed}
    for name, found in listed.items():
        pinned = tools.get(name)
        other = next((new for new in found if pinned is None or new.sha256 != pinned.sha256), None)
        if other is not None:
            after[name] = _first_seen(before.get(name), other)
    quarantined = _with(pins.quarantined, server, replace(known, tools=after) if after else None)
    servers = pins.servers if frozen else {**pins.servers, server: replace(known, tools=tools)}
    changes = {name: _change(server, name, tools.get(name), after[name]) for name in listed if name in after}
    return Sight(Pins(servers, quarantined), changes)


def _another(pins: Pins, server: str, identity: str, listed: Listed) -> Sight:
    """Another server under a name that is known: nothing of it is trusted, whatever it says."""
    known, waiting = pins.servers[server], pins.quarantined.get(server)
    before = waiting.tools if waiting is not None and waiting.identity == identity else {}
    seen = {name: _first_seen(before.get(name), found[0]) for name, found in listed.items()}
    now = Pinned(identity, {**before, **seen})
    change = _server_change(server, known, now)
    changes = dict.fromkeys(listed, change)
    return Sight(replace(pins, quarantined=_with(pins.quarantined, server, now)), changes)


def _first_seen(before: Pin | None, now: Pin) -> Pin:
    return before if before is not None and before.sha256 == now.sha256 else now


def _with(servers: Mapping[str, Pinned], server: str, pinned: Pinned | None) -> dict[str, Pinned]:
    others = {name: each for name, each in servers.items() if name != server}
    return others if pinned is None else {**others, server: pinned}


def _change(server: str, tool: str, old: Pin | None, new: Pin) -> Change:
    pinned = old.definition if old is not None else {}
    summary = f"{shown_name(server, tool)}: {told(pinned, new.definition)}"
    return Change(server, tool, pinned, new.definition, new.sha256, summary, new.seen)


def _server_change(server: str, old: Pinned, new: Pinned) -> Change:
    summary = f"{shown_name(server, None)}: another server, {visible(new.identity)} in place of {visible(old.identity)}"
    sha256 = hashed({"server": new.identity, "tools": {tool: each.sha256 for tool, each in new.tools.items()}})
    days = [each.seen for each in new.tools.values() if each.seen is not None]
    return Change(server, None, _plain(old), _plain(new), sha256, summary, min(days, default=None))


def _plain(pinned: Pinned) -> dict[str, Any]:
    return {"identity": pinned.identity, "tools": {tool: each.definition for tool, each in pinned.tools.items()}}
