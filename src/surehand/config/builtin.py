"""The section `builtin`: which of the built-in tools there are, and what they may touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from surehand.config.place import Place
from surehand.config.values import duration, flag, known_entries, size, text, texts, whole

Reader: TypeAlias = Callable[[Place], Any]
Settings: TypeAlias = Mapping[str, Any]


def _ports(place: Place) -> Any:
    return "any" if place.value == "any" else [whole(item) for item in place.items("write [80, 443], or any.")]


def _private(place: Place) -> Any:
    return place.value if isinstance(place.value, bool) else texts(place)


def _mapping(place: Place) -> dict[str, str]:
    return {name: text(inside) for name, inside in place.entries().items()}


@dataclass(frozen=True, slots=True)
class Search:
    """The engine behind `web_search`, with texts whose variables are filled in late."""

    engine: str
    place: Place
    settings: Mapping[str, Place] = field(default_factory=dict)


ENGINES: Mapping[str, tuple[str, ...]] = {
    "tavily": ("key",),
    "google": ("key", "cx"),
    "bing": ("key", "endpoint"),
    "duckduckgo": (),
    "brave": ("key",),
    "searxng": ("url",),
}
_OTHER_WORDS = {"provider": "engine", "api_key": "key"}


def _search(place: Place) -> Search:
    """`tavily`, or `{engine: tavily, key: ${TAVILY_API_KEY}}`."""
    if isinstance(place.value, str):
        return Search(_engine(place), place)
    found = known_entries(place, ("engine", "key", "cx", "endpoint", "url"), others=_OTHER_WORDS)
    if "engine" not in found:
        raise place.error("search has no engine.", f"write engine: {', '.join(ENGINES)}.")
    engine = _engine(found.pop("engine"))
    for name, inside in found.items():
        if name not in ENGINES[engine]:
            raise inside.error(f"{engine} takes no {name}.", f"it takes: {', '.join(ENGINES[engine]) or 'nothing'}.")
        text(inside)
    return Search(engine, place, found)


def _engine(place: Place) -> str:
    if (engine := text(place).strip().lower()) not in ENGINES:
        raise place.error("There is no such search engine.", f"use one of {', '.join(ENGINES)}.")
    return engine


def _names(place: Place) -> str:
    if place.value not in ("short", "long"):
        raise place.error("names must be short or long.")
    return str(place.value)


def _folder(place: Place) -> Place:
    text(place)
    return place  # its variables are filled in when it is needed


SETTINGS: Mapping[str, Mapping[str, Reader]] = {
    "files": {"names": _names},
    "shell": {
        "network": flag, "env": _mapping, "read": texts, "write": texts, "cpu": duration, "memory": size,
        "processes": whole, "background": whole, "life": duration, "unprotected": flag,
    },
    "web": {
        "search": _search, "allow_private": _private, "allow_hosts": texts, "deny_hosts": texts, "ports": _ports,
        "timeout": duration, "max_bytes": size, "max_redirects": whole,
    },
    "data": {},
    "clock": {},
    "env": {"allow": texts},
    "memory": {"folder": _folder},
    "todo": {},
    "tasks": {"folder": _folder},
    "sessions": {"folder": _folder},
    "goals": {},
    "memories": {},
    "plans": {},
    "spaces": {},
    "inbox": {},
    "delegate": {},
}  # fmt: skip
"""What may be said of each family of tools."""
NEEDED = {"env": "allow", "memory": "folder", "tasks": "folder", "sessions": "folder"}


@dataclass(frozen=True, slots=True)
class Family:
    """One family of built-in tools that is wanted."""

    name: str
    place: Place
    settings: Settings = field(default_factory=dict)


def builtin(place: Place) -> tuple[Family, ...]:
    """Names of families, or each with its settings: `{files: {names: long}, data: true}`."""
    if isinstance(place.value, list):
        wanted = {text(item): item for item in place.items()}
    else:
        wanted = {name: item for name, item in place.entries("write [files, data].").items() if item.value is not False}
    for name, item in wanted.items():
        if name not in SETTINGS:
            raise item.error(f"There are no built-in tools {name!r}.", f"use some of {', '.join(SETTINGS)}.")
    return tuple(_family(name, item) for name, item in wanted.items())


def _family(name: str, place: Place) -> Family:
    given = known_entries(place, SETTINGS[name]) if isinstance(place.value, dict) else {}
    in_list = isinstance(place.at[-1], int)
    if not (in_list or isinstance(place.value, dict) or place.value in (True, None)):
        raise place.error(f"{name} must be true, or hold its settings.")
    if (needed := NEEDED.get(name)) and needed not in given:
        raise place.error(f"{name} needs {needed}.", f"write {name}: {{{needed}: ...}}.")
    return Family(name, place, {key: SETTINGS[name][key](inside) for key, inside in given.items()})
