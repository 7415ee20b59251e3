"""Sight: what one look at a server finds, held against what is pinned of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from surehand.core.errors import ToolError
from surehand.core.sanitize import escape_as_json
from surehand.providers.mcp.trust.alias import alias
from surehand.providers.mcp.trust.change import Change, shown_name, told
from surehand.providers.mcp.trust.fingerprint import hashed, parts_of
from surehand.providers.mcp.trust.pins import Pin, Pinned, Pins, pin, weight
from surehand.providers.mcp.trust.said import is_withdrawn

MOST, SIZE = 10_000, 4 << 20
"""Pins of one server, and their bytes in the file; as much may wait. A server adds tools without end if it likes."""

Listed: TypeAlias = Mapping[str, tuple[Pin, ...]]
"""Every definition that was given for a name: a server may say two things of one tool."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The pins as they are after a look, and what was not as it is pinned."""

    pins: Pins
    changes: dict[str, Change]
    first: Mapping[str, Pin] = field(default_factory=dict)
    """What was seen for the first time."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a server is looked at."""

    frozen: bool = False
    """Nothing is pinned, and what is new is a change."""
    live: bool = True
    """Whether the server itself says it; what is only remembered of it is not pinned, though it is no change."""
    shown: Mapping[str, Pin] = field(default_factory=dict)
    """What models were shown from memory: the server has to say the same."""


def sight(
    pins: Pins, server: str, identity: str, definitions: Iterable[Mapping[str, Any]], how: Look | None = None
) -> Sight:
    """Look at a server: what is new is pinned unless the pins are frozen, what is different is quarantined."""
    listed, unfit = _listed(server, identity, definitions)
    known = pins.servers.get(server)
    if known is None:
        known = Pinned(identity)
    if known.identity != identity:
        found = _another(pins, server, identity, listed)
    else:
        found = _same(pins, server, known, listed, how or Look())
    return replace(found, changes=found.changes | unfit)


def changes_in(pins: Pins) -> Iterator[Change]:
    """All that is quarantined; a server that is another one by now is one change."""
    for server, waiting in sorted(pins.quarantined.items()):
        known = pins.servers.get(server, Pinned(waiting.identity))
        if known.identity != waiting.identity:
            yield _server_change(server, known, waiting)
        else:
            namesakes = _namesakes(known, waiting.tools)
            for tool, new in sorted(waiting.tools.items()):
                yield _change(server, tool, known.tools.get(tool), new, namesakes.get(tool))


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
    return Pins(servers, _with(pins.quarantined, change.server, Pinned(waiting.identity, rest)))


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


def _same(pins: Pins, server: str, known: Pinned, listed: Listed, how: Look) -> Sight:
    """The server that is pinned: tool by tool."""
    trusted = {**how.shown, **known.tools}
    listed = {name: found for name, found in listed.items() if not _is_silent(found, trusted.get(name))}
    namesakes = _namesakes(known, listed)
    new = {name: found[0] for name, found in listed.items() if name not in trusted and name not in namesakes}
    first, full = ({}, {}) if how.frozen else _fitting(server, known, new)
    trusted = first | trusted
    other = {name: each for name, found in listed.items() if (each := _other(found, trusted.get(name))) is not None}
    before = _waiting(pins, server, known.identity)
    gone = {name: old for name, old in before.items() if name not in listed}
    after = {name: _first_seen(before.get(name), each) for name, each in other.items() if name not in full}
    changes = {n: _change(server, n, trusted.get(n), each, namesakes.get(n)) for n, each in after.items()} | full
    quarantined = _with(pins.quarantined, server, replace(known, tools=_bounded(before, gone | after)))
    if how.frozen or not how.live:
        return Sight(replace(pins, quarantined=quarantined), changes, first)
    seen = {name: trusted[name] for name in listed if name in first or (name in how.shown and name not in other)}
    tools = {name: replace(each, seen=None) for name, each in seen.items()} | dict(known.tools)
    return Sight(Pins({**pins.servers, server: replace(known, tools=tools)}, quarantined), changes, first)


def _waiting(pins: Pins, server: str, identity: str) -> Mapping[str, Pin]:
    waiting = pins.quarantined.get(server)
    return waiting.tools if waiting is not None and waiting.identity == identity else {}


def _is_silent(found: tuple[Pin, ...], pinned: Pin | None) -> bool:
    """Whether nothing is said any more where something was."""
    return pinned is not None and is_withdrawn(found[0].definition) and _other(found, pinned) is not None


def _other(found: tuple[Pin, ...], pinned: Pin | None) -> Pin | None:
    """The first that is not the one that is pinned."""
    return next((each for each in found if pinned is None or each.sha256 != pinned.sha256), None)


def _namesakes(known: Pinned, names: Iterable[str]) -> dict[str, str]:
    """Tools that would be called like another that is pinned, and which: they could pass for it."""
    new = [name for name in names if name not in known.tools]
    taken = {alias(name): name for name in known.tools} if new else {}
    return {name: taken[ours] for name in new if (ours := alias(name)) in taken}


def _fitting(server: str, known: Pinned, new: Mapping[str, Pin]) -> tuple[dict[str, Pin], dict[str, Change]]:
    """What there is room for, and the rest, as changes that are not kept."""
    first: dict[str, Pin] = {}
    full: dict[str, Change] = {}
    size = sum(map(weight, known.tools.values())) if new else 0
    for name, each in new.items():
        size += (weighs := weight(each))
        if size <= SIZE and len(known.tools) + len(first) < MOST:
            first[name] = each
        else:
            size -= weighs
            summary = f"{shown_name(server, name)}: cannot be pinned, {_FULL}"
            full[name] = Change(server, name, {}, each.definition, "", summary)
    return first, full


_FULL = f"at most {MOST:,} tools of a server are, with {SIZE >> 20} MiB in all; allow fewer"


def _bounded(before: Mapping[str, Pin], after: Mapping[str, Pin]) -> dict[str, Pin]:
    """What waits, as far as there is room, and first what waited before. The rest is held back all the same."""
    if after.keys() <= before.keys() and all(before[name] is each for name, each in after.items()):
        return dict(after)
    size, kept = 0, dict[str, Pin]()
    for name in sorted(after, key=lambda name: name not in before):
        size += weight(after[name])
        if size > SIZE or len(kept) == MOST:
            break
        kept[name] = after[name]
    return kept


def _another(pins: Pins, server: str, identity: str, listed: Listed) -> Sight:
    """Another server under a name that is known: nothing of it is trusted, whatever it says."""
    before = _waiting(pins, server, identity)
    seen = {name: _first_seen(before.get(name), found[0]) for name, found in listed.items()}
    now = Pinned(identity, _bounded(before, {**before, **seen}))
    change = _server_change(server, pins.servers[server], now)
    quarantined = {**pins.quarantined, server: now}
    return Sight(replace(pins, quarantined=quarantined), dict.fromkeys(listed, change))


def _first_seen(before: Pin | None, now: Pin) -> Pin:
    return before if before is not None and before.sha256 == now.sha256 else now


def _with(servers: Mapping[str, Pinned], server: str, pinned: Pinned) -> dict[str, Pinned]:
    """With the server, or without it where nothing of it is left."""
    others = {name: each for name, each in servers.items() if name != server}
    return {**others, server: pinned} if pinned.tools else others


def _change(server: str, tool: str, old: Pin | None, new: Pin, namesake: str | None = None) -> Change:
    pinned = old.definition if old is not None else {}
    what = told(pinned, new.definition)
    if namesake is not None:
        what += f", and would be called like {shown_name(server, namesake)}"
    return Change(server, tool, pinned, new.definition, new.sha256, f"{shown_name(server, tool)}: {what}", new.seen)


def _server_change(server: str, old: Pinned, new: Pinned) -> Change:
    identities = f"{escape_as_json(new.identity)} in place of {escape_as_json(old.identity)}"
    summary = f"{shown_name(server, None)}: another server, {identities}"
    sha256 = hashed({"server": new.identity, "tools": {tool: each.sha256 for tool, each in new.tools.items()}})
    days = [each.seen for each in new.tools.values() if each.seen is not None]
    return Change(server, None, _plain(old), _plain(new), sha256, summary, min(days, default=None))


def _plain(pinned: Pinned) -> dict[str, Any]:
    return {"identity": pinned.identity, "tools": {tool: each.definition for tool, each in pinned.tools.items()}}
