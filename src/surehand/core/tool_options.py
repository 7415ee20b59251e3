"""Options: every facet that `tool(...)` takes, and how they become the small groups that a tool keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any, TypeAlias, TypedDict, cast

from surehand.core.durations import parse_duration, parse_size
from surehand.core.errors import DefinitionError
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
    """Every facet that `tool(...)` takes beside name, description and parameters."""

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
    retries: int
    cache: float | str | Cache
    queue: str
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


FacetGroups: TypeAlias = tuple[Safety, CallLimits, Presentation, Lifecycle]


def build_facets(options: ToolOptions, kind: ToolKind, where: str) -> FacetGroups:
    """The groups of facets; raises `DefinitionError` for what can never work."""
    return _build_facets(options, kind, where) if options or kind not in _DEFAULT_FACETS else _DEFAULT_FACETS[kind]


def _build_facets(options: ToolOptions, kind: ToolKind, where: str) -> FacetGroups:
    for name in options.keys() - ToolOptions.__annotations__.keys():  # one that is misspelt would not protect anybody
        near = nearest_names(name, ToolOptions.__annotations__, 1)
        fix = f"did you mean {near[0]!r}?" if near else f"use some of {', '.join(ToolOptions.__annotations__)}."
        raise DefinitionError(f"A tool has no option {name!r}.", fix=fix, where=where)
    made = (
        _build_safety(options, where),
        _build_limits(options, where),
        _build_presentation(options, kind),
        _build_lifecycle(options),
    )
    validate_facets(*made, where=where)
    return made


def _pick_options(options: ToolOptions, *names: str) -> dict[str, Any]:
    given = cast(dict[str, Any], options)
    return {name: given[name] for name in names if name in given}


def _as_tuple(given: str | Iterable[Any]) -> tuple[Any, ...]:
    """One word may stand for a list of one."""
    return (given,) if isinstance(given, str) else tuple(given)


def _build_safety(options: ToolOptions, where: str) -> Safety:
    effects = frozenset(_as_tuple(options.get("effects", ())))
    repeatable = options.get("repeatable", bool(effects) and effects <= {"read"})
    picked = _pick_options(options, "confirm", "confirm_message", "preview", "verify")
    if (verify := picked.get("verify")) is not None and not callable(verify):
        fix = "give a function of (args, ctx) that finds out whether the call has happened."
        raise DefinitionError(f"verify={verify!r} cannot be asked anything.", fix=fix, where=where)
    return Safety(effects, frozenset(_as_tuple(options.get("optional_effects", ()))), repeatable, **picked)


def _build_limits(options: ToolOptions, where: str) -> CallLimits:
    picked = _pick_options(options, "timeout", "retries", "queue", "max_bytes", "overflow")
    try:
        if isinstance(picked.get("timeout"), str):
            picked["timeout"] = parse_duration(picked["timeout"]) or inf  # "off": no limit, not even the default one
        if (cache := options.get("cache")) is not None and not isinstance(cache, Cache):
            cache = Cache(parse_duration(cache) or 0.0)  # "off": not even where its provider caches
        if isinstance(picked.get("max_bytes"), str):
            picked["max_bytes"] = parse_size(picked["max_bytes"])
    except ValueError as error:
        raise DefinitionError(str(error), fix="write 30, '30s', '5m', 'off', or '100kB'.", where=where) from None
    return CallLimits(**picked, cache=cache)


def _build_presentation(options: ToolOptions, kind: ToolKind) -> Presentation:
    picked = _pick_options(
        options, "category", "audience", "listed", "intent", "display", "version", "provider_options"
    )
    for name, value in _pick_options(options, "aliases", "examples", "requires", "toolsets").items():
        picked[name] = _as_tuple(value)
    return Presentation(**picked, visible=options.get("visible", kind not in ("internal", "mcp", "hosted")))


def _build_lifecycle(options: ToolOptions) -> Lifecycle:
    return Lifecycle(tuple(options.get("middleware", ())), **_pick_options(options, "lifespan", "hooks"))


_DEFAULT_FACETS: dict[ToolKind, FacetGroups] = {"function": _build_facets({}, "function", "")}
"""Most tools set no facet at all: they share these, and ten thousand of them are defined in no time."""
