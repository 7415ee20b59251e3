"""Turns the definition of a tool, as a server sent it, into a `Tool`.

`server_tools.py` uses it. Annotations count, because the user chose the server: a tool that is marked read-only is
`read`, unless the developer declares its effects or the policy distrusts annotations. Texts are cleaned before a model
reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, TypeVar

from surehand.core.define import tool
from surehand.core.names import qualified_name
from surehand.core.sanitize import clean_line, clean_text, has_hidden_characters
from surehand.core.tool import Tool
from surehand.core.tool_options import ToolOptions
from surehand.providers.mcp.tools.schema import ServerSchema, UnusableDefinition, clean_schema, to_object_schema
from surehand.providers.tool_names import (
    MAX_WIRE_TOOL_NAME_LENGTH,
    earlier_local_name,
    hashed_local_names,
    is_valid_local_name,
    local_name_for,
    nearest_local_name,
)
from surehand.providers.trust.instructions import RESERVED_DEFINITION_NAMES

__all__ = ["UnusableDefinition", "assign_local_names", "build_tool", "find_by_glob", "is_tool_allowed"]
T = TypeVar("T")

DEFAULT_EFFECTS = frozenset({"write"})
"""Effects of a tool for which neither the developer nor the server says anything."""


def build_tool(
    definition: Mapping[str, Any],
    *,
    server: str,
    identity: str = "",
    name: str | None = None,
    effects: Mapping[str, Iterable[str]] | None = None,
    timeout: float | str | None = None,
) -> Tool[..., Any]:
    """Build the tool of a definition. Raises `UnusableDefinition`.

    Args:
        identity: the server's identity; approvals and grants for the tool do not apply to the same tool of another.
        name: its local name, from `assign_local_names`.
    """
    wire_name = _validate_wire_name(definition)
    local_name = name or assign_local_names([definition])[wire_name]
    where = f"{server}: {clean_line(wire_name, 80)}"
    if _as_mapping(definition.get("execution")).get("taskSupport") == "required":
        raise UnusableDefinition("It runs as a task only, and tasks are not supported.")
    parameters = ServerSchema(to_object_schema(definition.get("inputSchema"), where), where=where)
    parameters.check_bounds()
    parameters.rewrite_prose(clean_schema)
    earlier_name = earlier_local_name(wire_name)
    declared = find_by_glob((wire_name, local_name, earlier_name), effects)
    options: ToolOptions = {"category": "mcp", "visible": False, **_effect_options(definition, declared)}
    if timeout is not None:
        options["timeout"] = timeout
    if earlier_name not in (wire_name, local_name):
        options["aliases"] = qualified_name(server, earlier_name)
    options["provider_options"] = {"mcp": _mcp_provider_options(definition, wire_name, keep_hints=declared is None)}
    built = tool.provided(local_name, _description(definition, server, wire_name), **options)
    presentation = replace(built.presentation, version=_tool_version(identity, wire_name))
    safety = built.safety
    if declared is None and is_read_only(safety.effects):
        safety = replace(safety, distrusted_effects=safety.effects - {"read"} | DEFAULT_EFFECTS)
    return built.evolve(kind="mcp", parameters=parameters, where=where, presentation=presentation, safety=safety)


def is_read_only(effects: frozenset[str]) -> bool:
    """Whether a tool with these effects changes nothing, so that its results may be cached."""
    return "read" in effects and effects <= {"read", "network"}


def _tool_version(identity: str, wire_name: str) -> str:
    """A hash of server and tool, to which approvals, grants and cached results are bound. No model sees it."""
    return sha256(f"{len(identity)}:{identity}{wire_name}".encode(errors="surrogatepass")).hexdigest()


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def find_by_glob(names: Iterable[str], by_glob: Mapping[str, T] | None) -> T | None:
    """The value of the first glob that matches one of the names."""
    for glob, value in (by_glob or {}).items():
        if any(fnmatchcase(name, glob) for name in names):
            return value
    return None


def _effect_options(definition: Mapping[str, Any], declared: Iterable[str] | None) -> ToolOptions:
    """The declared effects; otherwise those that the annotations say, with a confirmation if they hint at destruction.

    `network` means that the model chooses the address, which the explicit hint `openWorldHint` says.
    """
    if declared is not None:
        return {"effects": declared}
    annotations = _as_mapping(definition.get("annotations"))
    network = frozenset({"network"}) if annotations.get("openWorldHint") is True else frozenset()
    if annotations.get("destructiveHint"):
        return {"effects": DEFAULT_EFFECTS | network, "confirm": True}
    if annotations.get("readOnlyHint") is True:
        return {"effects": frozenset({"read"}) | network, "repeatable": True}
    return {"effects": DEFAULT_EFFECTS | network}


def _mcp_provider_options(definition: Mapping[str, Any], wire_name: str, *, keep_hints: bool) -> dict[str, Any]:
    """Fields of the definition that our own MCP server passes on to its clients. The runtime ignores them.

    Args:
        keep_hints: whether to pass on the annotations; not where the developer declares the effects.
    """
    annotations = _as_mapping(definition.get("annotations"))
    kept: dict[str, Any] = {
        key: annotations[key] for key in _ANNOTATION_HINTS if keep_hints and isinstance(annotations.get(key), bool)
    }
    if title := clean_line(annotations.get("title")):
        kept["title"] = title
    options = {
        "name": wire_name,
        "title": clean_line(definition.get("title")),
        "description": clean_text(definition.get("description")),
        "annotations": kept if any(key in kept for key in _ANNOTATION_HINTS) else None,
        "outputSchema": _clean_output_schema(definition.get("outputSchema")),
        "execution": _execution_support(definition),
    }
    return {key: value for key, value in options.items() if value}


_ANNOTATION_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def _clean_output_schema(schema: Any) -> dict[str, Any] | None:
    """The output schema with cleaned texts; None if there is none, or if it is unusable."""
    if not isinstance(schema, Mapping) or not schema:
        return None
    try:
        ServerSchema(schema).check_bounds()
        return clean_schema(dict(schema))
    except UnusableDefinition:
        return None


def _execution_support(definition: Mapping[str, Any]) -> dict[str, Any] | None:
    is_optional = _as_mapping(definition.get("execution")).get("taskSupport") == "optional"
    return {"taskSupport": "optional"} if is_optional else None


def _description(definition: Mapping[str, Any], server: str, wire_name: str) -> str:
    """The description, after the server's name and the title, unless name or description contain the title."""
    text = clean_text(definition.get("description"))
    title = clean_line(definition.get("title") or _as_mapping(definition.get("annotations")).get("title"))
    title_letters = _alphanumeric_characters(title)
    is_repeated = any(title_letters in _alphanumeric_characters(other) for other in (wire_name, text))
    if title and not is_repeated:
        text = f"{title}: {text}" if text else title
    return f"[{server}] {text or title or clean_line(wire_name)}"


def _alphanumeric_characters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def is_tool_allowed(
    wire_name: str, allow: Iterable[str] = ("*",), deny: Iterable[str] = (), *, local_name: str | None = None
) -> bool:
    """Whether the wire name or the local name matches `allow`, and neither these nor the nearest legal name `deny`.

    Both are globs, or `any`, and ignore case.
    """
    names = {wire_name, local_name or wire_name, earlier_local_name(wire_name)}
    return _matches_any(names, allow) and not _matches_any({*names, nearest_local_name(wire_name)}, deny)


def find_unmatched_names(
    allow: str | Iterable[str], wire_names: Iterable[str], local_names: Mapping[str, str]
) -> list[str]:
    """The entries of `allow` without wildcards that are the name of no tool."""
    names = {name for each in wire_names for name in (each, local_names.get(each, each), earlier_local_name(each))}
    entries = [allow] if isinstance(allow, str) else allow
    return [each for each in entries if not any(sign in each for sign in "*?[") and not _matches_any(names, [each])]


def _matches_any(names: Iterable[str], globs: Iterable[str]) -> bool:
    patterns = [glob.casefold() for glob in ([globs] if isinstance(globs, str) else globs)]
    return any(glob == "any" or fnmatchcase(name.casefold(), glob) for glob in patterns for name in names)


def assign_local_names(definitions: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The local name for each wire name of one server: one to one, and independent of their order.

    A name of up to 128 letters, digits, `_` and `-`, without `__`, is kept; `__` separates a namespace from a name. Any
    other becomes the nearest legal name, `read file` as `read_file`. It gets a hash at its end if it is cut, or if two
    tools would have the same name. Unusable names are omitted.
    """
    wire_names = {name for definition in definitions if (name := _wire_name_or_none(definition))}
    local_names = {name: name for name in wire_names if is_valid_local_name(name)}
    used = {name.casefold() for name in local_names}
    changed = sorted(wire_names - local_names.keys())
    # Both of two equal names get a hash: which tool has the plain name must not depend on what else is listed.
    counts = Counter(local_name_for(name).casefold() for name in changed)
    for wire_name in changed:
        local_name = local_name_for(wire_name)
        if counts[local_name.casefold()] > 1 or local_name.casefold() in used:
            local_name = next(name for name in hashed_local_names(wire_name) if name.casefold() not in used)
        local_names[wire_name] = local_name
        used.add(local_name.casefold())
    return local_names


def _validate_wire_name(definition: Mapping[str, Any]) -> str:
    name = definition.get("name")
    if not isinstance(name, str) or not name.strip():
        raise UnusableDefinition("It has no name.")
    if name in RESERVED_DEFINITION_NAMES:
        raise UnusableDefinition("Its name is one of ours.")
    if len(name) > MAX_WIRE_TOOL_NAME_LENGTH:
        raise UnusableDefinition(f"Its name has {len(name):,} characters, at most {MAX_WIRE_TOOL_NAME_LENGTH:,}.")
    if has_hidden_characters(name):
        raise UnusableDefinition(f"Its name {name[:80]!a} has characters that cannot be seen.")
    return name


def _wire_name_or_none(definition: Mapping[str, Any]) -> str | None:
    try:
        return _validate_wire_name(definition)
    except UnusableDefinition:
        return None
