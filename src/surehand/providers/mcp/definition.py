"""Definition: what a server says of a tool, in our words; its words can make a tool ask more, never less."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, TypeVar

from surehand.core.define import tool
from surehand.core.options import Options
from surehand.core.sanitize import clean_line, clean_text, has_hidden
from surehand.core.tool import Tool
from surehand.providers.mcp.schema import Schema, Unusable
from surehand.providers.mcp.trust.alias import MOST_WIRE_NAME, aliases, is_ours, nearest
from surehand.providers.mcp.trust.said import SAID
from surehand.providers.mcp.wording import cleaned, object_schema

__all__ = ["Unusable", "allowed", "names_of", "said_of", "tool_of"]
T = TypeVar("T")

EFFECTS = frozenset({"write", "network"})
"""What a tool is taken to do unless the developer says otherwise."""


def tool_of(
    definition: Mapping[str, Any],
    *,
    server: str,
    identity: str = "",
    name: str | None = None,
    effects: Mapping[str, Iterable[str]] | None = None,
    timeout: float | str | None = None,
) -> Tool[..., Any]:
    """A tool of a server, called `name`, for which see `names_of`; raises `Unusable` for what cannot be used.

    Args:
        identity: which server it is: what was allowed of a tool is not allowed of its like elsewhere.
    """
    wire = _wire_name(definition)
    ours = name or names_of([definition])[wire]
    where = f"{server}: {clean_line(wire, 80)}"
    if _mapping(definition.get("execution")).get("taskSupport") == "required":
        raise Unusable("It runs as a task only, and tasks are not supported.")
    parameters = Schema(object_schema(definition.get("inputSchema"), where), where=where).bound().reworded(cleaned)
    declared = said_of((wire, ours), effects)
    options: Options = {"category": "mcp", "visible": False, **_safety(definition, declared)}
    if timeout is not None:
        options["timeout"] = timeout
    options["provider_options"] = {"mcp": _passed_on(definition, wire, hints=declared is None)}
    made = tool.provided(ours, _description(definition, server, wire), **options)
    face = replace(made.face, version=_version(identity, wire))
    return made.evolve(kind="mcp", parameters=parameters, where=where, face=face)


def _version(identity: str, wire: str) -> str:
    """Whose tool it is: approvals, grants and cached results go by it, and no model sees it."""
    return sha256(f"{len(identity)}:{identity}{wire}".encode(errors="surrogatepass")).hexdigest()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def said_of(names: Iterable[str], by_glob: Mapping[str, T] | None) -> T | None:
    """What the developer says of a tool, by one of its names: the first glob that fits holds."""
    found = (said for glob, said in (by_glob or {}).items() if any(fnmatchcase(name, glob) for name in names))
    return next(found, None)


def _safety(definition: Mapping[str, Any], declared: Iterable[str] | None) -> Options:
    """The developer's word counts; else it writes and uses the network, and a hint can only make it ask a person."""
    if declared is not None:
        return {"effects": declared}
    hints = _mapping(definition.get("annotations"))
    return {"effects": EFFECTS, "confirm": True} if hints.get("destructiveHint") else {"effects": EFFECTS}


def _passed_on(definition: Mapping[str, Any], wire: str, *, hints: bool) -> dict[str, Any]:
    """What a client of ours is shown in the server's own words: what it means to the runtime is not its to say.

    Args:
        hints: whether the server's hints count; where the developer says what a tool does, they do not.
    """
    annotations = _mapping(definition.get("annotations"))
    kept: dict[str, Any] = {key: annotations[key] for key in _HINTS if hints and isinstance(annotations.get(key), bool)}
    if title := clean_line(annotations.get("title")):
        kept["title"] = title
    found = {
        "name": wire,
        "title": clean_line(definition.get("title")),
        "description": clean_text(definition.get("description")),
        "annotations": kept if any(key in kept for key in _HINTS) else None,
        "outputSchema": _output(definition.get("outputSchema")),
        "execution": _execution(definition),
    }
    return {key: value for key, value in found.items() if value}


_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def _output(given: Any) -> dict[str, Any] | None:
    """The schema of its results, with its prose cleaned; None where there is none, or none that can be shown."""
    if not isinstance(given, Mapping) or not given:
        return None
    try:
        Schema(given).bound()
        return cleaned(dict(given))
    except Unusable:
        return None


def _execution(definition: Mapping[str, Any]) -> dict[str, Any] | None:
    optional = _mapping(definition.get("execution")).get("taskSupport") == "optional"
    return {"taskSupport": "optional"} if optional else None


def _description(definition: Mapping[str, Any], server: str, wire: str) -> str:
    """The description with the server's name before it, and the title where that tells more."""
    text = clean_text(definition.get("description"))
    title = clean_line(definition.get("title") or _mapping(definition.get("annotations")).get("title"))
    if title and not any(_letters(title) in _letters(known) for known in (wire, text)):
        text = f"{title}: {text}" if text else title
    return f"[{server}] {text or title or clean_line(wire)}"


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def allowed(wire: str, allow: Iterable[str] = ("*",), deny: Iterable[str] = (), *, ours: str | None = None) -> bool:
    """Whether a tool is taken: allowed by the server's name for it or ours, and denied by none that it looks like.

    Globs, or `any`; upper and lower case are the same.
    """
    names = {wire, ours or wire}
    return _listed(names, allow) and not _listed({*names, nearest(wire)}, deny)


def _listed(names: Iterable[str], globs: Iterable[str]) -> bool:
    given = [glob.casefold() for glob in ([globs] if isinstance(globs, str) else globs)]
    return any(glob == "any" or fnmatchcase(name.casefold(), glob) for glob in given for name in names)


def names_of(definitions: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Our name for each wire name of one server: one to one, and the same in whatever order they come.

    A name of letters, digits, `_` and `-` stays as it is, up to 128 characters and unless it has `__` in it, which is
    ours to part a namespace from a name. Any other becomes the nearest such name with a hash at its end, so that
    nothing passes for what it only looks like. Names that cannot be used are left out.
    """
    wires = {wire for definition in definitions if (wire := _usable_name(definition))}
    names = {wire: wire for wire in wires if is_ours(wire)}
    used = {name.casefold() for name in names}
    for wire in sorted(wires - names.keys()):
        names[wire] = next(name for name in aliases(wire) if name.casefold() not in used)
        used.add(names[wire].casefold())
    return names


def _wire_name(definition: Mapping[str, Any]) -> str:
    name = definition.get("name")
    if not isinstance(name, str) or not name.strip():
        raise Unusable("It has no name.")
    if name in SAID:
        raise Unusable("Its name is one of ours.")
    if len(name) > MOST_WIRE_NAME:
        raise Unusable(f"Its name has {len(name):,} characters, at most {MOST_WIRE_NAME:,}.")
    if has_hidden(name):
        raise Unusable(f"Its name {name[:80]!a} has characters that cannot be seen.")
    return name


def _usable_name(definition: Mapping[str, Any]) -> str | None:
    try:
        return _wire_name(definition)
    except Unusable:
        return None
