"""Sight: what one look at a server finds, held against what is pinned of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from surehand.core.errors import ToolError
from surehand.core.sanitize import escape_as_json
from surehand.providers.tool_names import local_name_for
from surehand.providers.trust.change import DefinitionChange, describe_change, escaped_display_name
from surehand.providers.trust.fingerprint import hash_json, pinned_fields
from surehand.providers.trust.instructions import is_withdrawn
from surehand.providers.trust.pins import Pin, Pins, ProviderPins, build_pin, size_in_file

MAX_PINS_PER_PROVIDER, MAX_PIN_BYTES_PER_PROVIDER = 10_000, 4 << 20
"""Pins of one server, and their bytes in the file; as much may wait. A server adds tools without end if it likes."""

PinsByName: TypeAlias = Mapping[str, tuple[Pin, ...]]
"""Every definition that was given for a name: a server may say two things of one tool."""


@dataclass(frozen=True, slots=True)
class PinComparison:
    """The pins as they are after a look, and what was not as it is pinned."""

    pins: Pins
    changes: dict[str, DefinitionChange]
    new_pins: Mapping[str, Pin] = field(default_factory=dict)
    """What was seen for the first time."""


@dataclass(frozen=True, slots=True)
class ComparisonMode:
    """How a server is looked at."""

    frozen: bool = False
    """Nothing is pinned, and what is new is a change."""
    is_live: bool = True
    """Whether the server itself says it; what is only remembered of it is not pinned, though it is no change."""
    unconfirmed: Mapping[str, Pin] = field(default_factory=dict)
    """What models were shown from memory: the server has to say the same."""


def compare_with_pins(
    pins: Pins,
    namespace: str,
    identity: str,
    definitions: Iterable[Mapping[str, Any]],
    mode: ComparisonMode | None = None,
) -> PinComparison:
    """Look at a server: what is new is pinned unless the pins are frozen, what is different is quarantined."""
    listed, unfit = _pins_by_name(namespace, identity, definitions)
    known = pins.trusted.get(namespace)
    if known is None:
        known = ProviderPins(identity)
    if known.identity != identity:
        found = _compare_other_provider(pins, namespace, identity, listed)
    else:
        found = _compare_same_provider(pins, namespace, known, listed, mode or ComparisonMode())
    return replace(found, changes=found.changes | unfit)


def quarantined_changes(pins: Pins) -> Iterator[DefinitionChange]:
    """All that is quarantined; a server that is another one by now is one change."""
    for server, waiting in sorted(pins.quarantined.items()):
        known = pins.trusted.get(server, ProviderPins(waiting.identity))
        if known.identity != waiting.identity:
            yield _provider_change(server, known, waiting)
        else:
            namesakes = _name_collisions(known, waiting.tools)
            for tool, new in sorted(waiting.tools.items()):
                yield _tool_change(server, tool, known.tools.get(tool), new, namesakes.get(tool))


def accept_change(pins: Pins, change: DefinitionChange) -> Pins:
    """The pins with what is new in the place of what was pinned."""
    waiting = pins.quarantined[change.namespace]
    known = pins.trusted.get(change.namespace, ProviderPins(waiting.identity))
    taken = waiting.tools if change.tool is None else {change.tool: waiting.tools[change.tool]}
    # Tools that a new server has not shown yet stay pinned under its name: there too they could come back changed.
    kept = {tool: build_pin(waiting.identity, old.definition) for tool, old in known.tools.items()}
    tools = kept | {tool: replace(new, first_seen=None) for tool, new in taken.items()}
    servers = {**pins.trusted, change.namespace: ProviderPins(waiting.identity, tools)}
    rest = {tool: new for tool, new in waiting.tools.items() if tool not in taken}
    return Pins(servers, _with_provider(pins.quarantined, change.namespace, ProviderPins(waiting.identity, rest)))


def _pins_by_name(
    namespace: str, identity: str, definitions: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, tuple[Pin, ...]], dict[str, DefinitionChange]]:
    """The pins of what is listed, and, as changes, what cannot be pinned at all. What has no name is no tool."""
    listed: dict[str, tuple[Pin, ...]] = {}
    unfit: dict[str, DefinitionChange] = {}
    today = datetime.now(UTC).date().isoformat()
    for definition in definitions:
        name = definition.get("name")
        if not isinstance(name, str):
            continue
        try:
            listed[name] = (*listed.get(name, ()), build_pin(identity, definition, today))
        except ToolError as error:
            summary = f"{escaped_display_name(namespace, name)}: cannot be pinned, {error}"
            unfit[name] = DefinitionChange(namespace, name, {}, pinned_fields(definition), "", summary)
    return listed, unfit


def _compare_same_provider(
    pins: Pins, namespace: str, known: ProviderPins, listed: PinsByName, mode: ComparisonMode
) -> PinComparison:
    """The server that is pinned: tool by tool."""
    trusted = {**mode.unconfirmed, **known.tools}
    listed = {name: found for name, found in listed.items() if not _is_withdrawal(found, trusted.get(name))}
    namesakes = _name_collisions(known, listed)
    new = {name: found[0] for name, found in listed.items() if name not in trusted and name not in namesakes}
    first, full = ({}, {}) if mode.frozen else _pins_within_limits(namespace, known, new)
    trusted = first | trusted
    other = {
        name: each for name, found in listed.items() if (each := _first_different(found, trusted.get(name))) is not None
    }
    before = _quarantined_pins(pins, namespace, known.identity)
    gone = {name: old for name, old in before.items() if name not in listed}
    after = {name: _keep_first_seen(before.get(name), each) for name, each in other.items() if name not in full}
    changes = {
        n: _tool_change(namespace, n, trusted.get(n), each, namesakes.get(n)) for n, each in after.items()
    } | full
    quarantined = _with_provider(
        pins.quarantined, namespace, replace(known, tools=_limit_quarantine(before, gone | after))
    )
    if mode.frozen or not mode.is_live:
        return PinComparison(replace(pins, quarantined=quarantined), changes, first)
    seen = {name: trusted[name] for name in listed if name in first or (name in mode.unconfirmed and name not in other)}
    tools = {name: replace(each, first_seen=None) for name, each in seen.items()} | dict(known.tools)
    return PinComparison(Pins({**pins.trusted, namespace: replace(known, tools=tools)}, quarantined), changes, first)


def _quarantined_pins(pins: Pins, namespace: str, identity: str) -> Mapping[str, Pin]:
    waiting = pins.quarantined.get(namespace)
    return waiting.tools if waiting is not None and waiting.identity == identity else {}


def _is_withdrawal(candidates: tuple[Pin, ...], pinned: Pin | None) -> bool:
    """Whether nothing is said any more where something was."""
    return (
        pinned is not None
        and is_withdrawn(candidates[0].definition)
        and _first_different(candidates, pinned) is not None
    )


def _first_different(candidates: tuple[Pin, ...], pinned: Pin | None) -> Pin | None:
    """The first that is not the one that is pinned."""
    return next((each for each in candidates if pinned is None or each.sha256 != pinned.sha256), None)


def _name_collisions(known: ProviderPins, names: Iterable[str]) -> dict[str, str]:
    """Tools that would be called like another that is pinned, and which: they could pass for it."""
    new = [name for name in names if name not in known.tools]
    taken = {local_name_for(name): name for name in known.tools} if new else {}
    return {name: taken[ours] for name in new if (ours := local_name_for(name)) in taken}


def _pins_within_limits(
    namespace: str, known: ProviderPins, new: Mapping[str, Pin]
) -> tuple[dict[str, Pin], dict[str, DefinitionChange]]:
    """What there is room for, and the rest, as changes that are not kept."""
    first: dict[str, Pin] = {}
    full: dict[str, DefinitionChange] = {}
    size = sum(map(size_in_file, known.tools.values())) if new else 0
    for name, each in new.items():
        size += (weighs := size_in_file(each))
        if size <= MAX_PIN_BYTES_PER_PROVIDER and len(known.tools) + len(first) < MAX_PINS_PER_PROVIDER:
            first[name] = each
        else:
            size -= weighs
            summary = f"{escaped_display_name(namespace, name)}: cannot be pinned, {_LIMITS_REASON}"
            full[name] = DefinitionChange(namespace, name, {}, each.definition, "", summary)
    return first, full


_LIMITS_REASON = f"at most {MAX_PINS_PER_PROVIDER:,} tools of a server are, with {MAX_PIN_BYTES_PER_PROVIDER >> 20} MiB in all; allow fewer"


def _limit_quarantine(before: Mapping[str, Pin], after: Mapping[str, Pin]) -> dict[str, Pin]:
    """What waits, as far as there is room, and first what waited before. The rest is held back all the same."""
    if after.keys() <= before.keys() and all(before[name] is each for name, each in after.items()):
        return dict(after)
    size, kept = 0, dict[str, Pin]()
    for name in sorted(after, key=lambda name: name not in before):
        size += size_in_file(after[name])
        if size > MAX_PIN_BYTES_PER_PROVIDER or len(kept) == MAX_PINS_PER_PROVIDER:
            break
        kept[name] = after[name]
    return kept


def _compare_other_provider(pins: Pins, namespace: str, identity: str, listed: PinsByName) -> PinComparison:
    """Another server under a name that is known: nothing of it is trusted, whatever it says."""
    before = _quarantined_pins(pins, namespace, identity)
    seen = {name: _keep_first_seen(before.get(name), found[0]) for name, found in listed.items()}
    now = ProviderPins(identity, _limit_quarantine(before, {**before, **seen}))
    change = _provider_change(namespace, pins.trusted[namespace], now)
    quarantined = {**pins.quarantined, namespace: now}
    return PinComparison(replace(pins, quarantined=quarantined), dict.fromkeys(listed, change))


def _keep_first_seen(before: Pin | None, now: Pin) -> Pin:
    return before if before is not None and before.sha256 == now.sha256 else now


def _with_provider(
    providers: Mapping[str, ProviderPins], namespace: str, provider_pins: ProviderPins
) -> dict[str, ProviderPins]:
    """With the server, or without it where nothing of it is left."""
    others = {name: each for name, each in providers.items() if name != namespace}
    return {**others, namespace: provider_pins} if provider_pins.tools else others


def _tool_change(
    namespace: str, tool: str, old: Pin | None, new: Pin, collides_with: str | None = None
) -> DefinitionChange:
    pinned = old.definition if old is not None else {}
    what = describe_change(pinned, new.definition)
    if collides_with is not None:
        what += f", and would be called like {escaped_display_name(namespace, collides_with)}"
    return DefinitionChange(
        namespace,
        tool,
        pinned,
        new.definition,
        new.sha256,
        f"{escaped_display_name(namespace, tool)}: {what}",
        new.first_seen,
    )


def _provider_change(namespace: str, old: ProviderPins, new: ProviderPins) -> DefinitionChange:
    identities = f"{escape_as_json(new.identity)} in place of {escape_as_json(old.identity)}"
    summary = f"{escaped_display_name(namespace, None)}: another server, {identities}"
    sha256 = hash_json({"server": new.identity, "tools": {tool: each.sha256 for tool, each in new.tools.items()}})
    days = [each.first_seen for each in new.tools.values() if each.first_seen is not None]
    return DefinitionChange(
        namespace, None, _provider_as_json(old), _provider_as_json(new), sha256, summary, min(days, default=None)
    )


def _provider_as_json(provider_pins: ProviderPins) -> dict[str, Any]:
    return {
        "identity": provider_pins.identity,
        "tools": {tool: each.definition for tool, each in provider_pins.tools.items()},
    }
