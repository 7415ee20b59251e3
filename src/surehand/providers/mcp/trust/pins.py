"""Pins: which definition of each tool is trusted, and which ones wait for somebody to look at them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.jsontext import check_plain, parse
from surehand.core.sanitize import escape_as_json
from surehand.providers.mcp.trust.fingerprint import canonical_json, fingerprint, parts_of

VERSION = 1
LARGEST = 1 << 20
"""Characters of one definition."""
ROOM = 20
"""Levels of JSON around a definition."""


class Unreadable(ValueError):
    """The text holds no pins: says what is wrong with it, and how to mend it."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem)
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Pin:
    """One definition, and its hash."""

    sha256: str
    definition: Mapping[str, Any]
    seen: str | None = None
    """Since when it waits; None once it is pinned."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """The tools of one server, and which server that is."""

    identity: str
    tools: Mapping[str, Pin] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pins:
    """All servers: as they are pinned, and as they are now where that is different."""

    servers: Mapping[str, Pinned] = field(default_factory=dict)
    quarantined: Mapping[str, Pinned] = field(default_factory=dict)


def pin(identity: str, definition: Mapping[str, Any], seen: str | None = None) -> Pin:
    """The pin of a definition; `ToolError` for one that no file should hold."""
    kept = parts_of(definition)
    try:
        check_plain(_in_a_file(kept))
    except InvalidArguments as error:
        raise ToolError(_reason(error)) from None
    if len(canonical_json(kept)) > LARGEST:
        raise ToolError(f"it is larger than {LARGEST:,} characters", code="too_large")
    return Pin(fingerprint(identity, kept), kept, seen)


def _reason(error: InvalidArguments) -> str:
    """What is wrong with JSON, in words that are not about arguments."""
    said = str(error).partition(" Send ")[0].removesuffix(".")
    return said.replace("The arguments are", "it is").replace("The JSON is", "it is")


def _in_a_file(value: Any) -> Any:
    """As deep as it will be there and deeper: one that is too deep would make all of the file unreadable."""
    for _ in range(ROOM):
        value = [value]
    return value


def written(pins: Pins) -> str:
    """The text of a file that people review: sorted, indented, and with nothing hidden in it."""
    found = {"version": VERSION, "servers": _plain(pins.servers), "quarantined": _plain(pins.quarantined)}
    lines = json.dumps(found, indent=2, sort_keys=True, ensure_ascii=False).split("\n")
    return "\n".join(map(escape_as_json, lines)) + "\n"


def _plain(servers: Mapping[str, Pinned]) -> dict[str, Any]:
    return {
        server: {"identity": each.identity, "tools": {name: _entry(kept) for name, kept in each.tools.items()}}
        for server, each in servers.items()
    }


def _entry(kept: Pin) -> dict[str, Any]:
    seen = {} if kept.seen is None else {"seen": kept.seen}
    return {"sha256": kept.sha256, "definition": kept.definition, **seen}


def weight(kept: Pin) -> int:
    """Bytes of a pin in the file, where short values become long lines."""
    lines = json.dumps(_entry(kept), indent=2, ensure_ascii=False).split("\n")
    return sum(len(escape_as_json(line).encode(errors="replace")) + 9 for line in lines)


def read(text: str) -> Pins:
    """The pins in a text; everything in it is checked, since what is believed here is believed of a server."""
    if "\n<<<<<<< " in f"\n{text}":
        raise Unreadable("holds the marks of a merge", "settle the merge")
    try:
        found = parse(text)
    except InvalidArguments as error:
        raise _broken(_reason(error)) from None
    version = found.get("version") if isinstance(found, dict) else None
    if not isinstance(version, int) or isinstance(version, bool):
        raise _broken("there is no version in it")
    if version > VERSION:
        raise Unreadable(f"is of version {version}, newer than {VERSION}", "use a newer surehand")
    if version != VERSION or found.keys() != {"version", "servers", "quarantined"}:
        raise _broken('it has to hold "version": 1, "servers" and "quarantined", and nothing else')
    return Pins(_servers(found["servers"], waiting=False), _servers(found["quarantined"], waiting=True))


def _broken(problem: str) -> Unreadable:
    fix = "bring it back from version control, or delete it to trust what the servers say next"
    return Unreadable(f"cannot be understood: {problem}", fix)


def _servers(found: Any, *, waiting: bool) -> dict[str, Pinned]:
    return {server: _server(server, each, waiting=waiting) for server, each in _mapping(found, "servers").items()}


def _server(server: str, found: Any, *, waiting: bool) -> Pinned:
    entry = _mapping(found, server)
    identity, tools = entry.get("identity"), _mapping(entry.get("tools"), f"the tools of {server}")
    if entry.keys() != {"identity", "tools"} or not isinstance(identity, str):
        raise _broken(f'{escape_as_json(server)} has to hold "identity" and "tools", and nothing else')
    return Pinned(identity, {tool: _pin(f"{server}/{tool}", identity, tool, tools[tool], waiting) for tool in tools})


def _pin(name: str, identity: str, tool: str, found: Any, waiting: bool) -> Pin:
    """People review the definition and not the hash, so the hash must be that of the definition."""
    entry = _mapping(found, name)
    if entry.keys() != {"sha256", "definition", *(["seen"] if waiting else [])}:
        raise _broken(
            f'{escape_as_json(name)} has to hold "sha256" and "definition", "seen" while it waits, and nothing else'
        )
    definition, seen = _mapping(entry["definition"], name), entry.get("seen")
    if definition != parts_of(definition) or definition.get("name") != tool or not isinstance(seen, str | None):
        raise _broken(f"{escape_as_json(name)} is no definition of that tool")
    if entry["sha256"] != fingerprint(identity, definition):
        raise _broken(f"{escape_as_json(name)} has another sha256 than its definition")
    return Pin(entry["sha256"], definition, seen)


def _mapping(found: Any, name: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise _broken(f"{escape_as_json(name)} has to hold keys and values")
    return found
