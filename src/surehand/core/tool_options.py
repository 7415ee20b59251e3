"""The options of `tool(...)`, and how they become the groups of facets that a tool keeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any, TypeAlias, TypedDict, TypeVar, cast

from surehand.core.durations import parse_duration, parse_size
from surehand.core.errors import DefinitionError
from surehand.core.facet_functions import FACET_FUNCTION_NAMES, adapt_facet_function
from surehand.core.facets import (
    Audience,
    Cache,
    CallLimits,
    FacetFunction,
    Intent,
    Lifecycle,
    Lifespan,
    Overflow,
    Presentation,
    Safety,
    ToolKind,
    validate_facets,
)
from surehand.core.names import nearest_names


class ToolOptions(TypedDict, total=False):
    """The keyword arguments of `tool(...)` beside name, description and parameters."""

    category: str
    effects: str | Iterable[str]
    optional_effects: str | Iterable[str]
    repeatable: bool
    audience: Audience
    listed: bool
    toolsets: str | Sequence[str]
    aliases: str | Sequence[str]
    visible: bool
    intent: Intent
    confirm: bool | FacetFunction
    confirm_message: str | FacetFunction
    preview: Any
    verify: Callable[..., Any]
    timeout: float | str | Callable[[dict[str, Any]], float | None]
    expires: float | str
    retries: int
    cache: float | str | Cache
    queue: str
    priority: int
    max_bytes: int | str
    overflow: Overflow
    middleware: Sequence[Callable[..., Any]]
    use: Mapping[str, type]
    display: Mapping[str, Any]
    examples: Sequence[Any]
    version: str
    requires: str | Sequence[str]
    provider_options: Mapping[str, Any]
    lifespan: Lifespan
    hooks: Mapping[str, Callable[..., Any]]
    mcp_config: Mapping[str, Any]


OPTIONS_NOT_YET_USED: Mapping[str, str] = {
    "requires": "nothing loads the tools that another one needs yet",
    "version": "nothing chooses between versions of a tool yet",
}
"""Options that are refused because nothing acts on them, each with the reason."""

G = TypeVar("G", Safety, CallLimits, Presentation, Lifecycle)
FacetGroups: TypeAlias = tuple[Safety, CallLimits, Presentation, Lifecycle]


def build_facets(options: ToolOptions, kind: ToolKind, where: str) -> FacetGroups:
    """The facets of a tool; raises `DefinitionError` for options that can never work."""
    if not options and kind in _DEFAULT_FACETS:
        return _DEFAULT_FACETS[kind]
    return _build_facets(options, kind, where)


def change_facets(facets: FacetGroups, options: ToolOptions, kind: ToolKind, where: str) -> FacetGroups:
    """The facets of a tool with some options changed."""
    changed = _build_facets(options, kind, where)
    names = set(options)
    if "effects" in names:
        names.add("repeatable")  # follows from the effects, unless it is given
    safety = _replace_fields(facets[0], changed[0], names)
    limits = _replace_fields(facets[1], changed[1], names)
    presentation = _replace_fields(facets[2], changed[2], names)
    lifecycle = _replace_fields(facets[3], changed[3], names)
    validate_facets(safety, limits, presentation, lifecycle, where=where)
    return safety, limits, presentation, lifecycle


def _build_facets(options: ToolOptions, kind: ToolKind, where: str) -> FacetGroups:
    known_names = ToolOptions.__annotations__
    # An unknown name is an error: a misspelt `confirm` would leave the tool unprotected.
    for name in options.keys() - known_names.keys():
        near = nearest_names(name, known_names, 1)
        fix = f"did you mean {near[0]!r}?" if near else f"use some of {', '.join(known_names)}."
        raise DefinitionError(f"A tool has no option {name!r}.", fix=fix, where=where)
    if "expires" in options and kind not in ("client", "external"):
        fix = "remove it; `timeout` is the time limit of a handler."
        raise DefinitionError("Only client and external tools have `expires`.", fix=fix, where=where)
    for name in options.keys() & OPTIONS_NOT_YET_USED.keys():
        reason = OPTIONS_NOT_YET_USED[name]
        raise DefinitionError(f"`{name}` cannot be used yet: {reason}.", fix="remove it.", where=where)
    facets = (
        _build_safety(options, where),
        _build_limits(options, where),
        _build_presentation(options, kind),
        _build_lifecycle(options),
    )
    validate_facets(*facets, where=where)
    return facets


def _replace_fields(own: G, changed: G, names: set[str]) -> G:
    """A group of facets in which the fields of these names are those of another."""
    known = {field.name for field in dataclasses.fields(own)}
    return dataclasses.replace(own, **{name: getattr(changed, name) for name in names & known})


def _pick_options(options: ToolOptions, *names: str) -> dict[str, Any]:
    """The given options among these names."""
    values = cast(dict[str, Any], options)
    return {name: values[name] for name in names if name in values}


def _as_tuple(value: str | Iterable[Any]) -> tuple[Any, ...]:
    """A tuple of the values; one string stands for a list of one."""
    return (value,) if isinstance(value, str) else tuple(value)


def _build_safety(options: ToolOptions, where: str) -> Safety:
    effects = frozenset(_as_tuple(options.get("effects", ())))
    repeatable = options.get("repeatable", bool(effects) and effects <= {"read"})
    optional_effects = frozenset(_as_tuple(options.get("optional_effects", ())))
    fields = _pick_options(options, *FACET_FUNCTION_NAMES)
    fields = {name: adapt_facet_function(name, value, where) for name, value in fields.items()}
    fields |= _pick_options(options, "verify")
    verify = fields.get("verify")
    if verify is not None and not callable(verify):
        fix = "give a function of (args, ctx) that finds out whether the call has happened."
        raise DefinitionError(f"verify={verify!r} is not callable.", fix=fix, where=where)
    return Safety(effects, optional_effects, repeatable, **fields)


def _build_limits(options: ToolOptions, where: str) -> CallLimits:
    fields = _pick_options(options, "timeout", "expires", "retries", "queue", "priority", "max_bytes", "overflow")
    cache = options.get("cache")
    try:
        for name in ("timeout", "expires"):
            if isinstance(fields.get(name), str):
                fields[name] = parse_duration(fields[name]) or inf  # "off": no limit, not even the default one
        if cache is not None and not isinstance(cache, Cache):
            cache = Cache(parse_duration(cache) or 0.0)  # "off": no cache, even if the provider has one
    except ValueError as error:
        raise DefinitionError(str(error), fix="write 30, '30s', '5m' or 'off'.", where=where) from None
    try:
        if isinstance(fields.get("max_bytes"), str):
            fields["max_bytes"] = parse_size(fields["max_bytes"])
    except ValueError as error:
        raise DefinitionError(str(error), fix="write 100_000, '100kB' or '1MB'.", where=where) from None
    return CallLimits(**fields, cache=cache)


def _build_presentation(options: ToolOptions, kind: ToolKind) -> Presentation:
    fields = _pick_options(options, "category", "audience", "listed", "intent", "display", "provider_options")
    for name, value in _pick_options(options, "aliases", "examples", "toolsets").items():
        fields[name] = _as_tuple(value)
    return Presentation(**fields, visible=options.get("visible", kind not in ("internal", "mcp", "hosted")))


def _build_lifecycle(options: ToolOptions) -> Lifecycle:
    fields = _pick_options(options, "lifespan", "mcp_config", "hooks")
    return Lifecycle(tuple(options.get("middleware", ())), **fields)


_DEFAULT_FACETS: dict[ToolKind, FacetGroups] = {"function": _build_facets({}, "function", "")}
"""The facets of a function without options. Most tools have none; sharing these makes their definition faster."""
