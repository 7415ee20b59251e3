"""Compares the definitions that a provider lists now with its pins: pins new ones, quarantines changed ones.

Pure functions over `Pins`, without I/O; `DefinitionLock` stores what they return.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from surehand.core.errors import ToolError
from surehand.core.sanitize import escape_as_json
from surehand.providers.tool_names import is_valid_local_name, local_name_for
from surehand.providers.trust.change import DefinitionChange, describe_change, escaped_display_name
from surehand.providers.trust.fingerprint import hash_json, pinned_fields
from surehand.providers.trust.instructions import is_withdrawn
from surehand.providers.trust.pins import Pin, Pins, ProviderPins, build_pin, size_in_file

MAX_PINS_PER_PROVIDER = 10_000
MAX_PIN_BYTES_PER_PROVIDER = 4 << 20
"""Size of a provider's pins in the file. The quarantine has the same limits: a hostile server may add tools forever."""


@dataclass(frozen=True, slots=True)
class PinLimits:
    """How much is stored of one provider."""

    max_pins: int
    max_bytes: int

    @property
    def reason(self) -> str:
        """Why a definition beyond the limits is not pinned."""
        size = f"{self.max_bytes >> 20} MiB in all"
        return f"at most {self.max_pins:,} tools of a server are, with {size}; allow fewer"


PinsByName: TypeAlias = Mapping[str, tuple[Pin, ...]]
"""Every definition that was listed under a name: a provider may list two definitions of one tool."""


@dataclass(frozen=True, slots=True)
class PinComparison:
    """The result of a comparison."""

    pins: Pins
    """All pins after the comparison."""
    changes: dict[str, DefinitionChange]
    """The definitions that differ from their pins, by the tools' names."""
    new_pins: Mapping[str, Pin] = field(default_factory=dict)
    """The definitions that were seen for the first time."""


@dataclass(frozen=True, slots=True)
class ComparisonMode:
    """Options of a comparison."""

    frozen: bool = False
    """Whether nothing is pinned; then a new definition is a change."""
    is_live: bool = True
    """Whether the provider itself lists the definitions now; new ones from a cache are no change, but not pinned."""
    unconfirmed: Mapping[str, Pin] = field(default_factory=dict)
    """Definitions that models were shown from a cache; the provider must list the same."""
    limits: PinLimits | None = None
    """None: those of a server."""

    @property
    def pin_limits(self) -> PinLimits:
        """The limits that hold."""
        return self.limits or PinLimits(MAX_PINS_PER_PROVIDER, MAX_PIN_BYTES_PER_PROVIDER)


def compare_with_pins(
    pins: Pins,
    namespace: str,
    identity: str,
    definitions: Iterable[Mapping[str, Any]],
    mode: ComparisonMode | None = None,
) -> PinComparison:
    """Pin new definitions, unless the mode is frozen, and quarantine those that differ from their pins."""
    listed, unpinnable = _pins_by_name(namespace, identity, definitions)
    mode = mode or ComparisonMode()
    known = pins.trusted.get(namespace)
    if known is None:
        known = ProviderPins(identity)
    if known.identity != identity:
        comparison = _compare_other_provider(pins, namespace, identity, listed, mode.pin_limits)
    else:
        comparison = _compare_same_provider(pins, namespace, known, listed, mode)
    return replace(comparison, changes=comparison.changes | unpinnable)


def quarantined_changes(pins: Pins) -> Iterator[DefinitionChange]:
    """Every quarantined definition as a change; a provider with another identity is one change."""
    for namespace, quarantined in sorted(pins.quarantined.items()):
        known = pins.trusted.get(namespace, ProviderPins(quarantined.identity))
        if known.identity != quarantined.identity:
            yield _provider_change(namespace, known, quarantined)
        else:
            collisions = _name_collisions(known, quarantined.tools)
            for tool, new in sorted(quarantined.tools.items()):
                yield _tool_change(namespace, tool, known.tools.get(tool), new, collisions.get(tool))


def accept_change(pins: Pins, change: DefinitionChange) -> Pins:
    """Move a change from quarantine to the trusted pins."""
    quarantined = pins.quarantined[change.namespace]
    identity = quarantined.identity
    known = pins.trusted.get(change.namespace, ProviderPins(identity))
    accepted = quarantined.tools if change.tool is None else {change.tool: quarantined.tools[change.tool]}
    # Tools that a new server has not listed yet stay pinned under its identity: it could list them changed, too.
    earlier = {tool: build_pin(identity, pin.definition) for tool, pin in known.tools.items()}
    tools = earlier | {tool: replace(pin, first_seen=None) for tool, pin in accepted.items()}
    rest = {tool: pin for tool, pin in quarantined.tools.items() if tool not in accepted}
    return Pins(
        {**pins.trusted, change.namespace: ProviderPins(identity, tools)},
        _with_provider(pins.quarantined, change.namespace, ProviderPins(identity, rest)),
    )


def _pins_by_name(
    namespace: str, identity: str, definitions: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, tuple[Pin, ...]], dict[str, DefinitionChange]]:
    """The pins of the listed definitions, and changes for those that cannot be pinned; without a name, neither."""
    listed: dict[str, tuple[Pin, ...]] = {}
    unpinnable: dict[str, DefinitionChange] = {}
    today = datetime.now(UTC).date().isoformat()
    for definition in definitions:
        name = definition.get("name")
        if not isinstance(name, str):
            continue
        try:
            listed[name] = (*listed.get(name, ()), build_pin(identity, definition, today))
        except ToolError as error:
            summary = f"{escaped_display_name(namespace, name)}: cannot be pinned, {error}"
            unpinnable[name] = DefinitionChange(namespace, name, {}, pinned_fields(definition), "", summary)
    return listed, unpinnable


def _compare_same_provider(
    pins: Pins, namespace: str, known: ProviderPins, listed: PinsByName, mode: ComparisonMode
) -> PinComparison:
    """Compare tool by tool: the provider has the identity that is pinned."""
    trusted = {**mode.unconfirmed, **known.tools}
    listed = {
        name: candidates for name, candidates in listed.items() if not _is_withdrawal(candidates, trusted.get(name))
    }
    collisions = _name_collisions(known, listed)

    new_pins: dict[str, Pin] = {}
    over_limit: dict[str, DefinitionChange] = {}
    if not mode.frozen:
        new = {
            name: candidates[0] for name, candidates in listed.items() if name not in trusted and name not in collisions
        }
        new_pins, over_limit = _pins_within_limits(namespace, known, new, mode.pin_limits)
    trusted = new_pins | trusted

    differing = _differing_pins(listed, trusted)
    before = _quarantined_pins(pins, namespace, known.identity)
    unlisted = {name: pin for name, pin in before.items() if name not in listed}
    held_back = {
        name: _keep_first_seen(before.get(name), pin) for name, pin in differing.items() if name not in over_limit
    }
    changes = {
        name: _tool_change(namespace, name, trusted.get(name), pin, collisions.get(name))
        for name, pin in held_back.items()
    }
    changes |= over_limit
    provider_quarantine = replace(known, tools=_limit_quarantine(before, unlisted | held_back, mode.pin_limits))
    quarantined = _with_provider(pins.quarantined, namespace, provider_quarantine)
    if mode.frozen or not mode.is_live:
        return PinComparison(replace(pins, quarantined=quarantined), changes, new_pins)

    confirmed = {name for name in mode.unconfirmed if name in listed and name not in differing}
    newly_trusted = {name: trusted[name] for name in listed if name in new_pins or name in confirmed}
    tools = {name: replace(pin, first_seen=None) for name, pin in newly_trusted.items()} | dict(known.tools)
    after = Pins({**pins.trusted, namespace: replace(known, tools=tools)}, quarantined)
    return PinComparison(after, changes, new_pins)


def _differing_pins(listed: PinsByName, trusted: Mapping[str, Pin]) -> dict[str, Pin]:
    """The definitions that are not the trusted ones of their names."""
    differing = {name: _first_different(candidates, trusted.get(name)) for name, candidates in listed.items()}
    return {name: pin for name, pin in differing.items() if pin is not None}


def _quarantined_pins(pins: Pins, namespace: str, identity: str) -> Mapping[str, Pin]:
    quarantined = pins.quarantined.get(namespace)
    return quarantined.tools if quarantined is not None and quarantined.identity == identity else {}


def _is_withdrawal(candidates: tuple[Pin, ...], pinned: Pin | None) -> bool:
    """Whether instructions or prompts that were pinned are not sent any more."""
    if pinned is None or not is_withdrawn(candidates[0].definition):
        return False
    return _first_different(candidates, pinned) is not None


def _first_different(candidates: tuple[Pin, ...], pinned: Pin | None) -> Pin | None:
    return next((pin for pin in candidates if pinned is None or pin.sha256 != pinned.sha256), None)


def _name_collisions(known: ProviderPins, names: Iterable[str]) -> dict[str, str]:
    """New tools that would take the local name of a pinned one, which is the value: a model would mistake them for it.

    A pinned tool with a legal name keeps it while it is listed: the other gets a hash.
    """
    names = list(names)
    new = [name for name in names if name not in known.tools]
    if not new:
        return {}
    pinned_by_local_name = {local_name_for(name): name for name in known.tools}
    local_names = {name: local_name_for(name) for name in new}
    return {
        name: pinned_by_local_name[local]
        for name, local in local_names.items()
        if local in pinned_by_local_name and not _keeps_its_name(pinned_by_local_name[local], names)
    }


def _keeps_its_name(pinned: str, listed_names: list[str]) -> bool:
    return is_valid_local_name(pinned) and pinned in listed_names


def _pins_within_limits(
    namespace: str, known: ProviderPins, new: Mapping[str, Pin], limits: PinLimits
) -> tuple[dict[str, Pin], dict[str, DefinitionChange]]:
    """The new pins within the provider's limits, and changes, which are not stored, for the others."""
    new_pins: dict[str, Pin] = {}
    over_limit: dict[str, DefinitionChange] = {}
    total_bytes = sum(map(size_in_file, known.tools.values())) if new else 0
    for name, pin in new.items():
        pin_bytes = size_in_file(pin)
        has_room = len(known.tools) + len(new_pins) < limits.max_pins
        if has_room and total_bytes + pin_bytes <= limits.max_bytes:
            new_pins[name] = pin
            total_bytes += pin_bytes
        else:
            summary = f"{escaped_display_name(namespace, name)}: cannot be pinned, {limits.reason}"
            over_limit[name] = DefinitionChange(namespace, name, {}, pin.definition, "", summary)
    return new_pins, over_limit


def _limit_quarantine(before: Mapping[str, Pin], after: Mapping[str, Pin], limits: PinLimits) -> dict[str, Pin]:
    """The quarantine within the limits, earlier entries first. Definitions beyond them are held back, not stored."""
    if after.keys() <= before.keys() and all(before[name] is pin for name, pin in after.items()):
        return dict(after)
    stored: dict[str, Pin] = {}
    total_bytes = 0
    for name in sorted(after, key=lambda name: name not in before):
        total_bytes += size_in_file(after[name])
        if total_bytes > limits.max_bytes or len(stored) == limits.max_pins:
            break
        stored[name] = after[name]
    return stored


def _compare_other_provider(
    pins: Pins, namespace: str, identity: str, listed: PinsByName, limits: PinLimits
) -> PinComparison:
    """Quarantine every tool: another provider uses a namespace whose pins belong to the earlier one."""
    before = _quarantined_pins(pins, namespace, identity)
    seen = {name: _keep_first_seen(before.get(name), candidates[0]) for name, candidates in listed.items()}
    quarantined = ProviderPins(identity, _limit_quarantine(before, {**before, **seen}, limits))
    change = _provider_change(namespace, pins.trusted[namespace], quarantined)
    after = replace(pins, quarantined={**pins.quarantined, namespace: quarantined})
    return PinComparison(after, dict.fromkeys(listed, change))


def _keep_first_seen(before: Pin | None, now: Pin) -> Pin:
    return before if before is not None and before.sha256 == now.sha256 else now


def _with_provider(
    providers: Mapping[str, ProviderPins], namespace: str, provider_pins: ProviderPins
) -> dict[str, ProviderPins]:
    """The mapping with this provider's pins, or without the provider if it has none."""
    others = {name: each for name, each in providers.items() if name != namespace}
    return {**others, namespace: provider_pins} if provider_pins.tools else others


def _tool_change(
    namespace: str, tool: str, old: Pin | None, new: Pin, collides_with: str | None = None
) -> DefinitionChange:
    pinned = old.definition if old is not None else {}
    summary = f"{escaped_display_name(namespace, tool)}: {describe_change(pinned, new.definition)}"
    if collides_with is not None:
        summary += f", and would be called like {escaped_display_name(namespace, collides_with)}"
    return DefinitionChange(namespace, tool, pinned, new.definition, new.sha256, summary, new.first_seen)


def _provider_change(namespace: str, old: ProviderPins, new: ProviderPins) -> DefinitionChange:
    identities = f"{escape_as_json(new.identity)} in place of {escape_as_json(old.identity)}"
    summary = f"{escaped_display_name(namespace, None)}: another server, {identities}"
    sha256 = hash_json({"server": new.identity, "tools": {tool: pin.sha256 for tool, pin in new.tools.items()}})
    days = [pin.first_seen for pin in new.tools.values() if pin.first_seen is not None]
    return DefinitionChange(
        namespace, None, _provider_as_json(old), _provider_as_json(new), sha256, summary, min(days, default=None)
    )


def _provider_as_json(provider_pins: ProviderPins) -> dict[str, Any]:
    return {
        "identity": provider_pins.identity,
        "tools": {tool: pin.definition for tool, pin in provider_pins.tools.items()},
    }
