"""`Pins`: the trusted definition of each tool and the quarantined ones, and their JSON form in the lock file."""

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
EXTRA_NESTING_LEVELS = 20
"""Levels of JSON around a definition in the file, and some to spare."""


class UnreadablePins(ValueError):
    """The text of a lock file is malformed; `fix` says how to repair the file."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Pin:
    """One definition and its hash."""

    sha256: str
    definition: Mapping[str, Any]
    first_seen: str | None = None
    """The day on which a quarantined definition was first seen; None for a trusted one."""


@dataclass(frozen=True, slots=True)
class ProviderPins:
    """The pins of one provider, for example an MCP server."""

    identity: str
    """Which provider it is, for example its command or URL."""
    tools: Mapping[str, Pin] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pins:
    """The pins of all providers, by namespace: the trusted definitions, and those that differ and wait for review."""

    trusted: Mapping[str, ProviderPins] = field(default_factory=dict)
    quarantined: Mapping[str, ProviderPins] = field(default_factory=dict)


def build_pin(identity: str, definition: Mapping[str, Any], first_seen: str | None = None) -> Pin:
    """The pin of a definition; raises `ToolError` for one that cannot be stored as JSON, or is too large."""
    fields = pinned_fields(definition)
    try:
        validate_json_value(_nest_deeper(fields))
    except InvalidArguments as error:
        raise ToolError(_json_problem(error)) from None
    if len(canonical_json(fields)) > MAX_DEFINITION_LENGTH:
        raise ToolError(f"it is larger than {MAX_DEFINITION_LENGTH:,} characters", code="too_large")
    return Pin(fingerprint(identity, fields), fields, first_seen)


def _json_problem(error: InvalidArguments) -> str:
    """The JSON error as the end of a sentence: the parser's messages are written for arguments of a call."""
    message = str(error).partition(" Send ")[0].removesuffix(".")
    return message.replace("The arguments are", "it is").replace("The JSON is", "it is")


def _nest_deeper(value: Any) -> Any:
    """Nest a definition as deep as in the file: one that the parser refuses there makes the whole file unreadable."""
    for _ in range(EXTRA_NESTING_LEVELS):
        value = [value]
    return value


def render_pins(pins: Pins) -> str:
    """The text of the lock file, for people to review: sorted, indented, invisible characters escaped."""
    document = {
        "version": FORMAT_VERSION,
        "servers": _providers_as_json(pins.trusted),
        "quarantined": _providers_as_json(pins.quarantined),
    }
    lines = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False).split("\n")
    return "\n".join(map(escape_as_json, lines)) + "\n"


def _providers_as_json(providers: Mapping[str, ProviderPins]) -> dict[str, Any]:
    return {
        namespace: {
            "identity": provider.identity,
            "tools": {name: _pin_as_json(pin) for name, pin in provider.tools.items()},
        }
        for namespace, provider in providers.items()
    }


def _pin_as_json(pin: Pin) -> dict[str, Any]:
    entry = {"sha256": pin.sha256, "definition": pin.definition}
    if pin.first_seen is not None:
        entry["seen"] = pin.first_seen
    return entry


def size_in_file(pin: Pin) -> int:
    """Bytes that a pin takes in the file, with indentation and line breaks."""
    lines = json.dumps(_pin_as_json(pin), indent=2, ensure_ascii=False).split("\n")
    # 9 is an upper bound: eight spaces of further indentation and the line break.
    return sum(len(escape_as_json(line).encode(errors="replace")) + 9 for line in lines)


def parse_pins(text: str) -> Pins:
    """Parse the text of a lock file. Every part is validated: a wrong pin would make a poisoned tool look trusted."""
    if "\n<<<<<<< " in f"\n{text}":
        raise UnreadablePins("has merge conflict markers", "resolve the merge conflict")
    try:
        document = parse_json(text)
    except InvalidArguments as error:
        raise _malformed_error(_json_problem(error)) from None
    version = document.get("version") if isinstance(document, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        raise _malformed_error('"version" is missing')
    if version > FORMAT_VERSION:
        raise UnreadablePins(f"is of version {version}, newer than {FORMAT_VERSION}", "use a newer surehand")
    if version != FORMAT_VERSION or document.keys() != {"version", "servers", "quarantined"}:
        raise _malformed_error('it must hold "version": 1, "servers" and "quarantined", and nothing else')
    return Pins(
        _parse_providers(document["servers"], are_quarantined=False),
        _parse_providers(document["quarantined"], are_quarantined=True),
    )


def _malformed_error(problem: str) -> UnreadablePins:
    fix = "restore it from version control, or delete it to trust the definitions that servers list next"
    return UnreadablePins(f"is malformed: {problem}", fix)


def _parse_providers(value: Any, *, are_quarantined: bool) -> dict[str, ProviderPins]:
    return {
        namespace: _parse_provider(namespace, entry, is_quarantined=are_quarantined)
        for namespace, entry in _require_mapping(value, "servers").items()
    }


def _parse_provider(namespace: str, value: Any, *, is_quarantined: bool) -> ProviderPins:
    entry = _require_mapping(value, namespace)
    identity = entry.get("identity")
    tools = _require_mapping(entry.get("tools"), f"the tools of {namespace}")
    if entry.keys() != {"identity", "tools"} or not isinstance(identity, str):
        raise _malformed_error(f'{escape_as_json(namespace)} must hold "identity" and "tools", and nothing else')
    return ProviderPins(
        identity,
        {tool: _parse_pin(f"{namespace}/{tool}", identity, tool, tools[tool], is_quarantined) for tool in tools},
    )


def _parse_pin(name: str, identity: str, tool: str, value: Any, is_quarantined: bool) -> Pin:
    """Parse one pin. People review the definition and not the hash, so the hash must match the definition."""
    entry = _require_mapping(value, name)
    keys = {"sha256", "definition", "seen"} if is_quarantined else {"sha256", "definition"}
    if entry.keys() != keys:
        raise _malformed_error(
            f'{escape_as_json(name)} must hold "sha256" and "definition", "seen" if quarantined, and nothing else'
        )
    definition = _require_mapping(entry["definition"], name)
    first_seen = entry.get("seen")
    has_valid_fields = definition == pinned_fields(definition) and definition.get("name") == tool
    if not has_valid_fields or not isinstance(first_seen, str | None):
        raise _malformed_error(f"{escape_as_json(name)} is not a definition of that tool")
    if entry["sha256"] != fingerprint(identity, definition):
        raise _malformed_error(f"the sha256 of {escape_as_json(name)} does not match its definition")
    return Pin(entry["sha256"], definition, first_seen)


def _require_mapping(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _malformed_error(f"{escape_as_json(name)} must be a JSON object")
    return value
