"""Options: what may be said of any MCP server, however it is reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf
from os import PathLike
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from surehand.core.durations import parse_duration
from surehand.core.errors import DefinitionError
from surehand.core.facets import EFFECTS
from surehand.core.names import is_legal_name, nearest_names
from surehand.core.provider import OnConflict

ConnectionSharing: TypeAlias = Literal["user", "session", "everyone"]
ProbeKind: TypeAlias = Literal["list", "ping"]
ProtocolMode: TypeAlias = Literal["auto", "legacy", "2026-07-28"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Limits, choices and names; times are in seconds, or as people write them: `30s`, `5m`, `off`."""

    namespace: str | None = None
    """What its tools' names begin with; None for the name of the command or host."""
    allow: Sequence[str] = ("*",)
    """Globs of the tools that are taken."""
    deny: Sequence[str] = ()
    """Globs of the tools that are left out, even if allowed."""
    timeout: float | str | None = 60.0
    """How long a call may give no sign; progress starts the time again."""
    total: float | str | None = 600.0
    """How long a call may take in all, however much progress it makes."""
    start_timeout: float | str | None = 30.0
    """How long a runtime that starts waits for a server that is required, or whose tools are not known yet."""
    required: bool = False
    """Whether a runtime may not start without it; then it is started though its tools are known."""
    per: ConnectionSharing = "user"
    """Who shares a connection: one user's calls, one session's, or everyone's."""
    idle: float | str | None = 600.0
    """After how long without a call it is stopped, until the next one."""
    queue: str | None = None
    """The queue of its calls."""
    retries: int = 0
    """How often a call that may be repeated is, when the server was away or out of time."""
    cache: float | str | None = None
    """How long results of tools that only read are kept."""
    tools_cache: Mapping[str, float | str | None] | None = None
    """The same of single tools, by glob; the first that fits holds, and `off` keeps nothing."""
    probe: ProbeKind = "list"
    """How its health is looked at: list its tools, or ping."""
    probe_every: float | str | None = 60.0
    """How often, while nothing else is heard of it."""
    effects: Mapping[str, Iterable[str]] | None = None
    """What tools do, by glob, in the developer's words; a list is said of all. Where nothing is said of a tool, its
    server's own words can only make it ask more."""
    protocol: ProtocolMode = "auto"
    """`legacy` shakes hands as servers did up to 2025-11-25; `auto` finds out."""
    lock: str | PathLike[str] | None = None
    """The file that pins definitions; None pins them for as long as the program runs."""
    frozen: bool = False
    """Whether the lock only compares, and writes nothing: what is not pinned in it is held back."""
    manifest: bool | str | PathLike[str] = True
    """Whether what it said last is kept, so that listing starts nothing; or the folder to keep it in."""
    sessions: int = 100
    """Connections at once, over all users."""
    on_conflict: OnConflict = "rename"
    """What happens to a tool whose name another one has: it gets a number, takes the other's place, or is an error."""

    def __post_init__(self) -> None:
        for name in _DURATION_OPTIONS:
            object.__setattr__(self, name, _parse_duration(name, getattr(self, name)))
        for name, kind, what in _OPTION_TYPES:
            if not isinstance(getattr(self, name), kind) or (kind is int and isinstance(getattr(self, name), bool)):
                raise DefinitionError(f"{name}={getattr(self, name)!r} cannot be used.", fix=f"give {what}.")
        if self.sessions < 1 or self.retries < 0:
            raise DefinitionError("There is at least one of `sessions`, and no `retries` below zero.", fix="give more.")
        object.__setattr__(self, "effects", _validate_effects(self.effects))
        object.__setattr__(self, "tools_cache", _parse_durations("tools_cache", self.tools_cache))
        _validate_choice("per", self.per, ConnectionSharing)
        _validate_choice("probe", self.probe, ProbeKind)
        _validate_choice("protocol", self.protocol, ProtocolMode)
        _validate_choice("on_conflict", self.on_conflict, OnConflict)
        for name in ("allow", "deny"):
            globs = getattr(self, name)
            object.__setattr__(self, name, _validate_globs(name, globs))
        if self.namespace is not None and (not is_legal_name(self.namespace) or "__" in f"{self.namespace}_"):
            raise DefinitionError(
                f"namespace={self.namespace!r} is no name.",
                fix="use letters, digits, _ and -; not - at the start, _ at the end, or __ anywhere.",
            )

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> ServerOptions:
        "ServerOptionsns by name, refusing names that mean nothing."
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                near = (
                    [_LIKELY_MEANINGS[name]]
                    if name in _LIKELY_MEANINGS
                    else nearest_names(name, [*known, *_FACTORY_OPTIONS], 1)
                )
                raise DefinitionError(
                    f"An MCP server takes no {name!r}.",
                    fix=f"use {near[0] if near else ', '.join([*_FACTORY_OPTIONS, *known])}.",
                )
        return cls(**given)

    @property
    def silence_timeout(self) -> float | None:
        """Seconds without a sign after which a call is given up."""
        return None if self.timeout in (None, inf) else float(self.timeout)


class ServerOptionArguments(TypedDict, total=False):
    """The same by name, for those who change some of them."""

    namespace: str | None
    allow: Sequence[str]
    deny: Sequence[str]
    timeout: float | str | None
    total: float | str | None
    start_timeout: float | str | None
    required: bool
    per: ConnectionSharing
    idle: float | str | None
    queue: str | None
    retries: int
    cache: float | str | None
    tools_cache: Mapping[str, float | str | None] | None
    probe: ProbeKind
    probe_every: float | str | None
    effects: Mapping[str, Iterable[str]] | Iterable[str] | None
    protocol: ProtocolMode
    lock: str | PathLike[str] | None
    frozen: bool
    manifest: bool | str | PathLike[str]
    sessions: int
    on_conflict: OnConflict


_OPTION_TYPES: tuple[tuple[str, Any, str], ...] = (
    ("required", bool, "True or False"),
    ("frozen", bool, "True or False"),
    ("queue", str | None, "the name of a queue"),
    ("sessions", int, "a whole number"),
    ("retries", int, "a whole number"),
    ("lock", str | PathLike | None, "a path"),
    ("manifest", bool | str | PathLike, "True, False or a folder"),
)
_FACTORY_OPTIONS = ("env", "cwd", "sandbox", "headers", "auth", "settings", "max_frame")
"""What some ways to a server take, beside the options."""
_LIKELY_MEANINGS = {
    "args": "the words after the command, as in mcp.stdio('uvx', 'mcp-server-git')",
    "tools_allowed": "allow",
    "tools_denied": "deny",
    "include": "allow",
    "exclude": "deny",
    "name": "namespace",
    "prefix": "namespace",
}
_DURATION_OPTIONS = ("timeout", "total", "start_timeout", "idle", "cache", "probe_every")


def _validate_globs(name: str, value: Any) -> tuple[str, ...]:
    globs = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (value,)
    if not all(isinstance(glob, str) for glob in globs):
        raise DefinitionError(f"{name}={value!r} names no tools.", fix="give names, or globs such as 'get_*'.")
    return globs


def _validate_effects(value: Any) -> Mapping[str, frozenset[str]] | None:
    """By glob; a list is said of all."""
    if value is None:
        return None
    said = value if isinstance(value, Mapping) else {"*": value}
    read = {glob: frozenset([each] if isinstance(each, str) else each) for glob, each in said.items()}
    if unknown := {effect for effects in read.values() for effect in effects} - EFFECTS:
        known = ", ".join(sorted(EFFECTS))
        raise DefinitionError(f"Unknown effects: {', '.join(sorted(map(str, unknown)))}.", fix=f"use some of {known}.")
    return read


def _parse_duration(name: str, text: float | str | None) -> float | None:
    if type(text) not in (int, float, str, type(None)):  # a flag is an int, and no time
        raise DefinitionError(f"{name}={text!r} is no time.", fix=f"write {name}=30, '30s' or 'off'.")
    try:
        value = parse_duration(text) if isinstance(text, str) else text
    except ValueError as error:
        raise DefinitionError(str(error), fix=f"write {name}=30, '30s' or 'off'.") from None
    if value is not None and not value > 0:
        raise DefinitionError(f"{name}={text!r} is no time.", fix="give seconds above zero, or 'off'.")
    return None if value == inf else value


def _parse_durations(name: str, durations: Any) -> Mapping[str, float | None] | None:
    if durations is not None and not isinstance(durations, Mapping):
        raise DefinitionError(f"{name}={durations!r} names no tools.", fix=f"write {name}={{'get_*': '5m'}}.")
    return None if durations is None else {glob: _parse_duration(name, each) for glob, each in durations.items()}


def _validate_choice(name: str, value: object, choices: Any) -> None:
    known = get_args(choices)
    if value not in known:
        raise DefinitionError(f"{name}={value!r} is not known.", fix=f"use {' or '.join(map(repr, known))}.")
