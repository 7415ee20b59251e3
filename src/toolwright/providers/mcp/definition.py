"""Definition: what a server says of a tool, in our words; its words can make a tool ask more, never less."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import count
from typing import Any

from toolwright.core.define import tool
from toolwright.core.names import SEPARATOR, is_legal, sanitised
from toolwright.core.options import Options
from toolwright.core.tool import Tool
from toolwright.providers.mcp.prose import hides, line, told
from toolwright.providers.mcp.schema import Schema, Unusable
from toolwright.providers.mcp.wording import cleaned, object_schema

__all__ = ["Unusable", "allowed", "names_of", "tool_of"]

EFFECTS = frozenset({"write", "network"})
"""What a tool is taken to do unless the developer says otherwise."""
MOST_NAME, MOST_WIRE_NAME = 128, 1_000
"""Characters of a name of ours, and of one that a server may send."""
_UNDERSCORES = re.compile("__+")


def tool_of(
    definition: Mapping[str, Any],
    *,
    server: str,
    name: str | None = None,
    effects: Mapping[str, Iterable[str]] | None = None,
    timeout: float | str | None = None,
) -> Tool[..., Any]:
    """A tool of a server, called `name`, for which see `names_of`; raises `Unusable` for what cannot be used."""
    wire = _wire_name(definition)
    ours = name or names_of([definition])[wire]
    where = f"{server}: {line(wire, 80)}"
    if _mapping(definition.get("execution")).get("taskSupport") == "required":
        raise Unusable("It runs as a task only, and tasks are not supported.")
    sent = object_schema(definition.get("inputSchema"), where)
    Schema(sent).bound()
    options: Options = {"category": "mcp", "visible": False, **_safety(definition, wire, ours, effects)}
    if timeout is not None:
        options["timeout"] = timeout
    made = tool.provided(ours, _description(definition, server, wire), **options)
    return made.evolve(kind="mcp", parameters=Schema(cleaned(sent), where=where), where=where)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _safety(
    definition: Mapping[str, Any], wire: str, ours: str, effects: Mapping[str, Iterable[str]] | None
) -> Options:
    """The developer's word counts; else it writes and uses the network, and a hint can only make it ask a person."""
    for glob, declared in (effects or {}).items():
        if fnmatchcase(wire, glob) or fnmatchcase(ours, glob):
            return {"effects": declared}
    hints = _mapping(definition.get("annotations"))
    return {"effects": EFFECTS, "confirm": True} if hints.get("destructiveHint") else {"effects": EFFECTS}


def _description(definition: Mapping[str, Any], server: str, wire: str) -> str:
    """The description with the server's name before it, and the title where that tells more."""
    text = told(definition.get("description"))
    title = line(definition.get("title") or _mapping(definition.get("annotations")).get("title"))
    if title and not any(_letters(title) in _letters(known) for known in (wire, text)):
        text = f"{title}: {text}" if text else title
    return f"[{server}] {text or title or line(wire)}"


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def allowed(name: str, allow: Iterable[str] = ("*",), deny: Iterable[str] = ()) -> bool:
    """Whether a tool is taken: allowed, and not denied. Globs, or `any`; upper and lower case are the same."""
    return _listed(name, allow) and not _listed(name, deny)


def _listed(name: str, globs: Iterable[str]) -> bool:
    given = [globs] if isinstance(globs, str) else globs
    return any(glob.casefold() == "any" or fnmatchcase(name.casefold(), glob.casefold()) for glob in given)


def names_of(definitions: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Our name for each wire name of one server: one to one, and the same in whatever order they come.

    A name of letters, digits, `_` and `-` stays as it is, up to 128 characters and unless it has `__` in it, which is
    ours to part a namespace from a name. Any other becomes the nearest such name, and ends in a hash where it is cut,
    where it was not plain ASCII (so that nothing passes for what it only looks like), or where two become the same.
    Names that cannot be used are left out.
    """
    wires = {wire for definition in definitions if (wire := _usable_name(definition))}
    near = {wire: wire if _is_ours(wire) else _nearest(wire) for wire in sorted(wires)}
    alike = Counter(name.casefold() for name in near.values())
    names = {wire: wire for wire in near if _is_ours(wire)}
    used = {name.casefold() for name in names}
    for wire in near.keys() - names.keys():
        if wire.isascii() and len(near[wire]) <= MOST_NAME and alike[near[wire].casefold()] == 1:
            names[wire] = near[wire]
            used.add(near[wire].casefold())
    for wire in (wire for wire in near if wire not in names):
        names[wire] = next(name for name in _marked(near[wire], wire) if name.casefold() not in used)
        used.add(names[wire].casefold())
    return names


def _is_ours(name: str) -> bool:
    return is_legal(name) and SEPARATOR not in name and len(name) <= MOST_NAME


def _nearest(wire: str) -> str:
    ascii_only = sanitised(unicodedata.normalize("NFKC", wire)[:MOST_WIRE_NAME])
    return _UNDERSCORES.sub("_", ascii_only).strip("_-") or "tool"


def _marked(name: str, wire: str) -> Iterator[str]:
    """The name with a hash; with others, should a server have taken the first for another tool."""
    for time in count():
        mark = sha256(f"{time or ''}{wire}".encode()).hexdigest()[:8]
        yield f"{name[: MOST_NAME - 9].rstrip('_')}_{mark}"


def _wire_name(definition: Mapping[str, Any]) -> str:
    name = definition.get("name")
    if not isinstance(name, str) or not name.strip():
        raise Unusable("It has no name.")
    if len(name) > MOST_WIRE_NAME:
        raise Unusable(f"Its name has {len(name):,} characters, at most {MOST_WIRE_NAME:,}.")
    if hides(name):
        raise Unusable(f"Its name {name[:80]!a} has characters that cannot be seen.")
    return name


def _usable_name(definition: Mapping[str, Any]) -> str | None:
    try:
        return _wire_name(definition)
    except Unusable:
        return None
