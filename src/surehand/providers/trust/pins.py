"""Pins: which definition of each tool is trusted, and which ones wait for somebody to look at them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.sanitize import escape_as_json
from surehand.core.strict_json import parse_json, validate_json_value
from surehand.providers.trust.fingerprint import canonical_json, fingerprint, pinned_fields

FORMAT_VERSION = 1
MAX_DEFINITION_LENGTH = 1 << 20
"""Characters of one definition."""
EXTRA_NESTING_LEVELS = 20
"""Levels of JSON around a definition."""


class UnreadablePins(ValueError):
    """The text holds no pins: says what is wrong with it, and how to mend it."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Pin:
    """One definition, and its hash."""

    sha256: str
    definition: Mapping[str, Any]
    first_seen: str | None = None
    """Since when it waits; None once it is pinned."""


@dataclass(frozen=True, slots=True)
class ProviderPins:
    """The tools of one server, and which server that is."""

    identity: str
    tools: Mapping[str, Pin] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pins:
    """All servers: as they are pinned, and as they are now where that is different."""

    trusted: Mapping[str, ProviderPins] = field(default_factory=dict)
    quarantined: Mapping[str, ProviderPins] = field(default_factory=dict)


def build_pin(identity: str, definition: Mapping[str, Any], first_seen: str | None = None) -> Pin:
    """The pin of a definition; `ToolError` for one that no file should hold."""
    kept = pinned_fields(definition)
    try:
        validate_json_value(_nest_deeper(kept))
    except InvalidArguments as error:
        raise ToolError(_json_problem(error)) from None
    if len(canonical_json(kept)) > MAX_DEFINITION_LENGTH:
        raise ToolError(f"it is larger than {MAX_DEFINITION_LENGTH:,} characters", code="too_large")
    return Pin(fingerprint(identity, kept), kept, first_seen)


def _json_problem(error: InvalidArguments) -> str:
    """What is wrong with JSON, in words that are not about arguments."""
    said = str(error).partition(" Send ")[0].removesuffix(".")
    return said.replace("The arguments are", "it is").replace("The JSON is", "it is")


def _nest_deeper(value: Any) -> Any:
    """As deep as it will be there and deeper: one that is too deep would make all of the file unreadable."""
    for _ in range(EXTRA_NESTING_LEVELS):
        value = [value]
    return value


def render_pins(pins: Pins) -> str:
    """The text of a file that people review: sorted, indented, and with nothing hidden in it."""
    found = {
        "version": FORMAT_VERSION,
        "servers": _providers_as_json(pins.trusted),
        "quarantined": _providers_as_json(pins.quarantined),
    }
    lines = json.dumps(found, indent=2, sort_keys=True, ensure_ascii=False).split("\n")
    return "\n".join(map(escape_as_json, lines)) + "\n"


def _providers_as_json(providers: Mapping[str, ProviderPins]) -> dict[str, Any]:
    return {
        server: {"identity": each.identity, "tools": {name: _pin_as_json(kept) for name, kept in each.tools.items()}}
        for server, each in providers.items()
    }


def _pin_as_json(pin: Pin) -> dict[str, Any]:
    seen = {} if pin.first_seen is None else {"seen": pin.first_seen}
    return {"sha256": pin.sha256, "definition": pin.definition, **seen}


def size_in_file(pin: Pin) -> int:
    """Bytes of a pin in the file, where short values become long lines."""
    lines = json.dumps(_pin_as_json(pin), indent=2, ensure_ascii=False).split("\n")
    return sum(len(escape_as_json(line).encode(errors="replace")) + 9 for line in lines)


def parse_pins(text: str) -> Pins:
    """The pins in a text; everything in it is checked, since what is believed here is believed of a server."""
    if "\n<<<<<<< " in f"\n{text}":
        raise UnreadablePins("holds the marks of a merge", "settle the merge")
    try:
        found = parse_json(text)
    except InvalidArguments as error:
        raise _malformed_error(_json_problem(error)) from None
    version = found.get("version") if isinstance(found, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        raise _malformed_error("there is no version in it")
    if version > FORMAT_VERSION:
        raise UnreadablePins(f"is of version {version}, newer than {FORMAT_VERSION}", "use a newer surehand")
    if version != FORMAT_VERSION or found.keys() != {"version", "servers", "quarantined"}:
        raise _malformed_error('it has to hold "version": 1, "servers" and "quarantined", and nothing else')
    return Pins(
        _parse_providers(found["servers"], are_quarantined=False),
        _parse_providers(found["quarantined"], are_quarantined=True),
    )


def _malformed_error(problem: str) -> UnreadablePins:
    fix = "bring it back from version control, or delete it to trust what the servers say next"
    return UnreadablePins(f"cannot be understood: {problem}", fix)


def _parse_providers(value: Any, *, are_quarantined: bool) -> dict[str, ProviderPins]:
    return {
        server: _parse_provider(server, each, is_quarantined=are_quarantined)
        for server, each in _require_mapping(value, "servers").items()
    }


def _parse_provider(namespace: str, value: Any, *, is_quarantined: bool) -> ProviderPins:
    entry = _require_mapping(value, namespace)
    identity, tools = entry.get("identity"), _require_mapping(entry.get("tools"), f"the tools of {namespace}")
    if entry.keys() != {"identity", "tools"} or not isinstance(identity, str):
        raise _malformed_error(f'{escape_as_json(namespace)} has to hold "identity" and "tools", and nothing else')
    return ProviderPins(
        identity,
        {tool: _parse_pin(f"{namespace}/{tool}", identity, tool, tools[tool], is_quarantined) for tool in tools},
    )


def _parse_pin(name: str, identity: str, tool: str, value: Any, is_quarantined: bool) -> Pin:
    """People review the definition and not the hash, so the hash must be that of the definition."""
    entry = _require_mapping(value, name)
    if entry.keys() != {"sha256", "definition", *(["seen"] if is_quarantined else [])}:
        raise _malformed_error(
            f'{escape_as_json(name)} has to hold "sha256" and "definition", "seen" while it waits, and nothing else'
        )
    definition, seen = _require_mapping(entry["definition"], name), entry.get("seen")
    if definition != pinned_fields(definition) or definition.get("name") != tool or not isinstance(seen, str | None):
        raise _malformed_error(f"{escape_as_json(name)} is no definition of that tool")
    if entry["sha256"] != fingerprint(identity, definition):
        raise _malformed_error(f"{escape_as_json(name)} has another sha256 than its definition")
    return Pin(entry["sha256"], definition, seen)


def _require_mapping(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _malformed_error(f"{escape_as_json(name)} has to hold keys and values")
    return value
