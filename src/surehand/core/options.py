"""Options: every facet that `tool(...)` takes, and how they become the small groups that a tool keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any, TypeAlias, TypedDict, cast

from surehand.core.durations import seconds, size
from surehand.core.errors import DefinitionError
from surehand.core.facets import (
    Asked,
    Audience,
    Cache,
    Face,
    Intent,
    Kind,
    Life,
    Lifespan,
    Limits,
    Safety,
    check_facets,
)
from surehand.core.names import nearest


class Options(TypedDict, total=False):
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
    confirm: bool | Asked
    confirm_message: str | Asked
    preview: Any
    verify: Callable[..., Any]
    timeout: float | str | Callable[[dict[str, Any]], float | None]
    retries: int
    cache: float | str | Cache
    queue: str
    max_bytes: int | str
    middleware: Sequence[Callable[..., Any]]
    use: Mapping[str, type]
    display: Mapping[str, Any]
    examples: Sequence[Any]
    version: str
    requires: str | Sequence[str]
    provider_options: Mapping[str, Any]
    lifespan: Lifespan
    hooks: Mapping[str, Callable[..., Any]]


Facets: TypeAlias = tuple[Safety, Limits, Face, Life]


def facets_of(options: Options, kind: Kind, place: str) -> Facets:
    """The groups of facets; raises `DefinitionError` for what can never work."""
    return _make(options, kind, place) if options or kind not in _PLAIN else _PLAIN[kind]


def _make(options: Options, kind: Kind, place: str) -> Facets:
    for name in options.keys() - Options.__annotations__.keys():  # one that is misspelt would not protect anybody
        near = nearest(name, Options.__annotations__, 1)
        fix = f"did you mean {near[0]!r}?" if near else f"use some of {', '.join(Options.__annotations__)}."
        raise DefinitionError(f"A tool has no option {name!r}.", fix=fix, where=place)
    made = _safety(options, place), _limits(options, place), _face(options, kind), _life(options)
    check_facets(*made, where=place)
    return made


def _pick(options: Options, *names: str) -> dict[str, Any]:
    given = cast(dict[str, Any], options)
    return {name: given[name] for name in names if name in given}


def _words(given: str | Iterable[Any]) -> tuple[Any, ...]:
    """One word may stand for a list of one."""
    return (given,) if isinstance(given, str) else tuple(given)


def _safety(options: Options, place: str) -> Safety:
    effects = frozenset(_words(options.get("effects", ())))
    repeatable = options.get("repeatable", bool(effects) and effects <= {"read"})
    picked = _pick(options, "confirm", "confirm_message", "preview", "verify")
    if (verify := picked.get("verify")) is not None and not callable(verify):
        fix = "give a function of (args, ctx) that finds out whether the call has happened."
        raise DefinitionError(f"verify={verify!r} cannot be asked anything.", fix=fix, where=place)
    return Safety(effects, frozenset(_words(options.get("optional_effects", ()))), repeatable, **picked)


def _limits(options: Options, place: str) -> Limits:
    picked = _pick(options, "timeout", "retries", "queue", "max_bytes")
    try:
        if isinstance(picked.get("timeout"), str):
            picked["timeout"] = seconds(picked["timeout"]) or inf  # "off": no limit, not even the default one
        if (cache := options.get("cache")) is not None and not isinstance(cache, Cache):
            cache = Cache(seconds(cache) or 0.0)  # "off": not even where its provider caches
        if isinstance(picked.get("max_bytes"), str):
            picked["max_bytes"] = size(picked["max_bytes"])
    except ValueError as error:
        raise DefinitionError(str(error), fix="write 30, '30s', '5m', 'off', or '100kB'.", where=place) from None
    return Limits(**picked, cache=cache)


def _face(options: Options, kind: Kind) -> Face:
    picked = _pick(options, "category", "audience", "listed", "intent", "display", "version", "provider_options")
    for name, value in _pick(options, "aliases", "examples", "requires", "toolsets").items():
        picked[name] = _words(value)
    return Face(**picked, visible=options.get("visible", kind not in ("internal", "mcp", "hosted")))


def _life(options: Options) -> Life:
    return Life(tuple(options.get("middleware", ())), **_pick(options, "lifespan", "hooks"))


_PLAIN: dict[Kind, Facets] = {"function": _make({}, "function", "")}
"""Most tools set no facet at all: they share these, and ten thousand of them are defined in no time."""
