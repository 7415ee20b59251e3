"""Sections: what each part of a configuration file may say, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from surehand.config.address import store_address
from surehand.config.errors import ConfigError
from surehand.config.place import Place
from surehand.config.values import (
    LATER,
    duration,
    expanded,
    flag,
    known_entries,
    or_off,
    size,
    text,
    texts,
    whole,
)
from surehand.core.durations import rate
from surehand.core.facets import EFFECTS
from surehand.runtime.defaults import Defaults
from surehand.runtime.policy import Decision, Policy, Rule
from surehand.runtime.queues import Queue

DEFAULTS: Mapping[str, Callable[[Place], Any]] = {
    "tool_timeout": or_off(duration),
    "max_output": size,
    "max_input": size,
    "max_concurrent": or_off(whole),
    "pending_ttl": or_off(duration),
    "retry_delay": duration,
    "breaker_failures": whole,
    "breaker_pause": duration,
    "mcp_init_concurrency": or_off(whole),
}
_OTHERS = {"tool_response_max_bytes": "max_output", "max_concurrent_tools": "max_concurrent"}
_OTHERS |= {f"{name}_ms": name for name in ("tool_timeout", "pending_ttl", "retry_delay", "breaker_pause")}
_DEFAULTS_LATER = ("trace_mcp", "trace_tools")
_DECISIONS = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder that file paths are meant in, and others that the built-in tools may touch."""

    root: Place
    writes: bool = True
    extra: tuple[Place, ...] = ()
    read_only: tuple[Place, ...] = ()
    sensitive: tuple[str, ...] | None = None

    def options(self, environment: Mapping[str, str]) -> dict[str, Any]:
        """Everything beside the root."""
        named = {"extra": self.extra, "read_only": self.read_only}
        folders = {name: [_folder(place, environment) for place in places] for name, places in named.items()}
        return {"writes": self.writes, **folders, **({} if self.sensitive is None else {"sensitive": self.sensitive})}

    def folder(self, environment: Mapping[str, str]) -> Path:
        """The folder itself: relative to the configuration file, with its variables filled in."""
        return _folder(self.root, environment)


def _folder(place: Place, environment: Mapping[str, str]) -> Path:
    folder = place.path.parent / Path(expanded(place, environment)).expanduser()
    if not folder.is_dir():
        what = "The root of the workspace" if place.key in ("root", "workspace") else "A folder of the workspace"
        raise place.error(f"{what} is no folder.", "make it, or name another one.")
    return folder.resolve()


@dataclass(frozen=True, slots=True)
class Address:
    """Where calls are remembered."""

    place: Place

    def text(self, environment: Mapping[str, str]) -> str:
        """The address itself: a file is meant relative to the configuration file, and variables are filled in."""
        try:
            return store_address(expanded(self.place, environment), self.place.path.parent)
        except ValueError:
            fix = "write store: surehand.db, or store: postgresql://..."
            raise self.place.error("store must be a file or a postgresql:// address.", fix) from None


@dataclass(frozen=True, slots=True)
class Source:
    """Where tools come from: a file or a module, perhaps with one thing in it."""

    text: str
    place: Place

    def error(self, problem: str) -> ConfigError:
        """What is wrong with it, and where it was asked for."""
        return self.place.error(problem)


def defaults(place: Place) -> Defaults:
    """The limits that hold where a tool sets none."""
    found = known_entries(place, DEFAULTS, others=_OTHERS, later=_DEFAULTS_LATER)
    return Defaults(**{name: DEFAULTS[name](inside) for name, inside in found.items()})


def workspace(place: Place) -> Workspace:
    """A folder, or `{root, writes, extra, read_only, sensitive}`."""
    if isinstance(place.value, str):
        text(place)
        return Workspace(place)
    found = known_entries(
        place, ("root", "writes", "extra", "read_only", "sensitive"), others={"allowed_paths": "extra"}
    )
    if "root" not in found:
        raise place.error("workspace has no root.", "write root: .")
    text(found["root"])
    return Workspace(
        found["root"],
        flag(found["writes"]) if "writes" in found else True,
        extra=_places(found.get("extra")),
        read_only=_places(found.get("read_only")),
        sensitive=tuple(texts(found["sensitive"])) if "sensitive" in found else None,
    )


def _places(place: Place | None) -> tuple[Place, ...]:
    """Folders, one or several."""
    if place is None:
        return ()
    texts(place)
    return (place,) if isinstance(place.value, str) else tuple(place.items())


def store(place: Place) -> Address:
    """A file, or the address of a PostgreSQL server."""
    text(place)
    return Address(place)


def policy(place: Place) -> Policy:
    """Rules in order; the first that matches decides."""
    return Policy([_rule(item) for item in place.items("write - {effects: [write], decision: ask}.")])


def _rule(place: Place) -> Rule:
    found = known_entries(place, ("tools", "effects", "arguments", "decision", "reason"))
    decision = found["decision"].value if "decision" in found else None
    if decision not in _DECISIONS:
        raise found.get("decision", place).error("A rule needs a decision.", f"use {', '.join(_DECISIONS)}.")
    effects = texts(found["effects"]) if "effects" in found else []
    if set(effects) - EFFECTS:
        raise found["effects"].error("effects names something unknown.", f"use some of {', '.join(sorted(EFFECTS))}.")
    arguments = found["arguments"].entries() if "arguments" in found else {}
    return Rule(
        cast(Decision, decision),
        tuple(texts(found["tools"])) if "tools" in found else ("*",),
        frozenset(effects),
        {name: inside.value for name, inside in arguments.items()},
        text(found["reason"]) if "reason" in found else "",
    )


def queues(place: Place) -> dict[str, Queue]:
    """Named limits: `{github: {concurrent: 3, rate: 30/min, shared: true}}`."""
    return {name: _queue(inside) for name, inside in place.entries().items()}


def _queue(place: Place) -> Queue:
    found = known_entries(place, ("concurrent", "rate", "shared"))
    pace = text(found["rate"]) if "rate" in found else None
    try:
        if pace is not None:
            rate(pace)
    except ValueError:
        raise found["rate"].error("rate must say how many in what time.", "write 30/min, 5/s or 1000/h.") from None
    shared = flag(found["shared"]) if "shared" in found else False
    return Queue(whole(found["concurrent"]) if "concurrent" in found else None, pace, shared)


def tools(place: Place) -> tuple[Source, ...]:
    """Files and modules, relative to the configuration file."""
    return tuple(_source(item) for item in place.items("write - tools.py, or - package.module:object."))


def _source(place: Place) -> Source:
    if isinstance(place.value, dict):
        raise place.error(f"A tool that is written out in the file {LATER}.", "name a file or module with tools.")
    if not isinstance(place.value, str) or not place.value.strip():
        raise place.error("A source of tools must be text.", "write tools.py, or package.module:object.")
    return Source(place.value.strip(), place)
