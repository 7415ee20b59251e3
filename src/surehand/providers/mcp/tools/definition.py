"""Definition: what a server says of a tool, in our words; its words can make a tool ask more, never less."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, TypeVar

from surehand.core.define import tool
from surehand.core.sanitize import clean_line, clean_text, has_hidden
from surehand.core.tool import Tool
from surehand.core.tool_options import ToolOptions
from surehand.providers.mcp.tools.schema import ServerSchema, UnusableDefinition, clean_schema, to_object_schema
from surehand.providers.tool_names import (
    MAX_WIRE_TOOL_NAME_LENGTH,
    is_valid_local_name,
    local_name_candidates,
    nearest_local_name,
)
from surehand.providers.trust.instructions import RESERVED_DEFINITION_NAMES

__all__ = ["UnusableDefinition", "assign_local_names", "build_tool", "find_by_glob", "is_tool_allowed"]
T = TypeVar("T")

DEFAULT_EFFECTS = frozenset({"write", "network"})
"""What a tool is taken to do unless the developer says otherwise."""


def build_tool(
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
    wire = _validate_wire_name(definition)
    ours = name or assign_local_names([definition])[wire]
    where = f"{server}: {clean_line(wire, 80)}"
    if _as_mapping(definition.get("execution")).get("taskSupport") == "required":
        raise UnusableDefinition("It runs as a task only, and tasks are not supported.")
    parameters = (
        ServerSchema(to_object_schema(definition.get("inputSchema"), where), where=where)
        .check_bounds()
        .rewrite_prose(clean_schema)
    )
    declared = find_by_glob((wire, ours), effects)
    options: ToolOptions = {"category": "mcp", "visible": False, **_effect_options(definition, declared)}
    if timeout is not None:
        options["timeout"] = timeout
    options["provider_options"] = {"mcp": _mcp_provider_options(definition, wire, keep_hints=declared is None)}
    made = tool.provided(ours, _description(definition, server, wire), **options)
    face = replace(made.presentation, version=_tool_version(identity, wire))
    return made.evolve(kind="mcp", parameters=parameters, where=where, presentation=face)


def _tool_version(identity: str, wire_name: str) -> str:
    """Whose tool it is: approvals, grants and cached results go by it, and no model sees it."""
    return sha256(f"{len(identity)}:{identity}{wire_name}".encode(errors="surrogatepass")).hexdigest()


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def find_by_glob(names: Iterable[str], by_glob: Mapping[str, T] | None) -> T | None:
    """What the developer says of a tool, by one of its names: the first glob that fits holds."""
    found = (said for glob, said in (by_glob or {}).items() if any(fnmatchcase(name, glob) for name in names))
    return next(found, None)


def _effect_options(definition: Mapping[str, Any], declared: Iterable[str] | None) -> ToolOptions:
    """The developer's word counts; else it writes and uses the network, and a hint can only make it ask a person."""
    if declared is not None:
        return {"effects": declared}
    hints = _as_mapping(definition.get("annotations"))
    return (
        {"effects": DEFAULT_EFFECTS, "confirm": True} if hints.get("destructiveHint") else {"effects": DEFAULT_EFFECTS}
    )


def _mcp_provider_options(definition: Mapping[str, Any], wire_name: str, *, keep_hints: bool) -> dict[str, Any]:
    """What a client of ours is shown in the server's own words: what it means to the runtime is not its to say.

    Args:
        hints: whether the server's hints count; where the developer says what a tool does, they do not.
    """
    annotations = _as_mapping(definition.get("annotations"))
    kept: dict[str, Any] = {
        key: annotations[key] for key in _ANNOTATION_HINTS if keep_hints and isinstance(annotations.get(key), bool)
    }
    if title := clean_line(annotations.get("title")):
        kept["title"] = title
    found = {
        "name": wire_name,
        "title": clean_line(definition.get("title")),
        "description": clean_text(definition.get("description")),
        "annotations": kept if any(key in kept for key in _ANNOTATION_HINTS) else None,
        "outputSchema": _clean_output_schema(definition.get("outputSchema")),
        "execution": _execution_support(definition),
    }
    return {key: value for key, value in found.items() if value}


_ANNOTATION_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def _clean_output_schema(schema: Any) -> dict[str, Any] | None:
    """The schema of its results, with its prose cleaned; None where there is none, or none that can be shown."""
    if not isinstance(schema, Mapping) or not schema:
        return None
    try:
        ServerSchema(schema).check_bounds()
        return clean_schema(dict(schema))
    except UnusableDefinition:
        return None


def _execution_support(definition: Mapping[str, Any]) -> dict[str, Any] | None:
    optional = _as_mapping(definition.get("execution")).get("taskSupport") == "optional"
    return {"taskSupport": "optional"} if optional else None


def _description(definition: Mapping[str, Any], server: str, wire_name: str) -> str:
    """The description with the server's name before it, and the title where that tells more."""
    text = clean_text(definition.get("description"))
    title = clean_line(definition.get("title") or _as_mapping(definition.get("annotations")).get("title"))
    if title and not any(
        _alphanumeric_characters(title) in _alphanumeric_characters(known) for known in (wire_name, text)
    ):
        text = f"{title}: {text}" if text else title
    return f"[{server}] {text or title or clean_line(wire_name)}"


def _alphanumeric_characters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def is_tool_allowed(
    wire_name: str, allow: Iterable[str] = ("*",), deny: Iterable[str] = (), *, local_name: str | None = None
) -> bool:
    """Whether a tool is taken: allowed by the server's name for it or ours, and denied by none that it looks like.

    Globs, or `any`; upper and lower case are the same.
    """
    names = {wire_name, local_name or wire_name}
    return _matches_any(names, allow) and not _matches_any({*names, nearest_local_name(wire_name)}, deny)


def _matches_any(names: Iterable[str], globs: Iterable[str]) -> bool:
    given = [glob.casefold() for glob in ([globs] if isinstance(globs, str) else globs)]
    return any(glob == "any" or fnmatchcase(name.casefold(), glob) for glob in given for name in names)


def assign_local_names(definitions: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Our name for each wire name of one server: one to one, and the same in whatever order they come.

    A name of letters, digits, `_` and `-` stays as it is, up to 128 characters and unless it has `__` in it, which is
    ours to part a namespace from a name. Any other becomes the nearest such name with a hash at its end, so that
    nothing passes for what it only looks like. Names that cannot be used are left out.
    """
    wires = {wire for definition in definitions if (wire := _wire_name_or_none(definition))}
    names = {wire: wire for wire in wires if is_valid_local_name(wire)}
    used = {name.casefold() for name in names}
    for wire in sorted(wires - names.keys()):
        names[wire] = next(name for name in local_name_candidates(wire) if name.casefold() not in used)
        used.add(names[wire].casefold())
    return names


def _validate_wire_name(definition: Mapping[str, Any]) -> str:
    name = definition.get("name")
    if not isinstance(name, str) or not name.strip():
        raise UnusableDefinition("It has no name.")
    if name in RESERVED_DEFINITION_NAMES:
        raise UnusableDefinition("Its name is one of ours.")
    if len(name) > MAX_WIRE_TOOL_NAME_LENGTH:
        raise UnusableDefinition(f"Its name has {len(name):,} characters, at most {MAX_WIRE_TOOL_NAME_LENGTH:,}.")
    if has_hidden(name):
        raise UnusableDefinition(f"Its name {name[:80]!a} has characters that cannot be seen.")
    return name


def _wire_name_or_none(definition: Mapping[str, Any]) -> str | None:
    try:
        return _validate_wire_name(definition)
    except UnusableDefinition:
        return None
