"""Options: what may be said of any MCP server, however it is reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf
from os import PathLike
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from surehand.core.durations import seconds
from surehand.core.errors import DefinitionError
from surehand.core.facets import EFFECTS
from surehand.core.names import is_legal, nearest

Per: TypeAlias = Literal["user", "session", "everyone"]
Probe: TypeAlias = Literal["list", "ping"]
Protocol: TypeAlias = Literal["auto", "legacy", "2026-07-28"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
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
    per: Per = "user"
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
    probe: Probe = "list"
    """How its health is looked at: list its tools, or ping."""
    probe_every: float | str | None = 60.0
    """How often, while nothing else is heard of it."""
    effects: Mapping[str, Iterable[str]] | None = None
    """What tools do, by glob, in the developer's words; a list is said of all. Where nothing is said of a tool, its
    server's own words can only make it ask more."""
    protocol: Protocol = "auto"
    """`legacy` shakes hands as servers did up to 2025-11-25; `auto` finds out."""
    lock: str | PathLike[str] | None = None
    """The file that pins definitions; None pins them for as long as the program runs."""
    frozen: bool = False
    """Whether the lock only compares, and writes nothing: what is not pinned in it is held back."""
    manifest: bool | str | PathLike[str] = True
    """Whether what it said last is kept, so that listing starts nothing; or the folder to keep it in."""
    sessions: int = 100
    """Connections at once, over all users."""

    def __post_init__(self) -> None:
        for name in _TIMES:
            object.__setattr__(self, name, _time(name, getattr(self, name)))
        for name, kind, what in _KINDS:
            if not isinstance(getattr(self, name), kind) or (kind is int and isinstance(getattr(self, name), bool)):
                raise DefinitionError(f"{name}={getattr(self, name)!r} cannot be used.", fix=f"give {what}.")
        if self.sessions < 1 or self.retries < 0:
            raise DefinitionError("There is at least one of `sessions`, and no `retries` below zero.", fix="give more.")
        object.__setattr__(self, "effects", _effects(self.effects))
        object.__setattr__(self, "tools_cache", _times("tools_cache", self.tools_cache))
        _choice("per", self.per, Per)
        _choice("probe", self.probe, Probe)
        _choice("protocol", self.protocol, Protocol)
        for name in ("allow", "deny"):
            globs = getattr(self, name)
            object.__setattr__(self, name, _globs(name, globs))
        if self.namespace is not None and (not is_legal(self.namespace) or "__" in f"{self.namespace}_"):
            raise DefinitionError(
                f"namespace={self.namespace!r} is no name.",
                fix="use letters, digits, _ and -; not - at the start, _ at the end, or __ anywhere.",
            )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Options by name, refusing names that mean nothing."""
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                near = [_MEANT[name]] if name in _MEANT else nearest(name, [*known, *_OWN], 1)
                raise DefinitionError(
                    f"An MCP server takes no {name!r}.", fix=f"use {near[0] if near else ', '.join([*_OWN, *known])}."
                )
        return cls(**given)

    @property
    def patience(self) -> float | None:
        """Seconds without a sign after which a call is given up."""
        return None if self.timeout in (None, inf) else float(self.timeout)


class Given(TypedDict, total=False):
    """The same by name, for those who change some of them."""

    namespace: str | None
    allow: Sequence[str]
    deny: Sequence[str]
    timeout: float | str | None
    total: float | str | None
    start_timeout: float | str | None
    required: bool
    per: Per
    idle: float | str | None
    queue: str | None
    retries: int
    cache: float | str | None
    tools_cache: Mapping[str, float | str | None] | None
    probe: Probe
    probe_every: float | str | None
    effects: Mapping[str, Iterable[str]] | Iterable[str] | None
    protocol: Protocol
    lock: str | PathLike[str] | None
    frozen: bool
    manifest: bool | str | PathLike[str]
    sessions: int


_KINDS: tuple[tuple[str, Any, str], ...] = (
    ("required", bool, "True or False"),
    ("frozen", bool, "True or False"),
    ("queue", str | None, "the name of a queue"),
    ("sessions", int, "a whole number"),
    ("retries", int, "a whole number"),
    ("lock", str | PathLike | None, "a path"),
    ("manifest", bool | str | PathLike, "True, False or a folder"),
)
_OWN = ("env", "cwd", "sandbox", "headers", "auth", "settings", "max_frame")
"""What some ways to a server take, beside the options."""
_MEANT = {
    "args": "the words after the command, as in mcp.stdio('uvx', 'mcp-server-git')",
    "tools_allowed": "allow",
    "tools_denied": "deny",
    "include": "allow",
    "exclude": "deny",
    "name": "namespace",
    "prefix": "namespace",
}
_TIMES = ("timeout", "total", "start_timeout", "idle", "cache", "probe_every")


def _globs(name: str, given: Any) -> tuple[str, ...]:
    globs = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(glob, str) for glob in globs):
        raise DefinitionError(f"{name}={given!r} names no tools.", fix="give names, or globs such as 'get_*'.")
    return globs


def _effects(given: Any) -> Mapping[str, frozenset[str]] | None:
    """By glob; a list is said of all."""
    if given is None:
        return None
    said = given if isinstance(given, Mapping) else {"*": given}
    read = {glob: frozenset([each] if isinstance(each, str) else each) for glob, each in said.items()}
    if unknown := {effect for effects in read.values() for effect in effects} - EFFECTS:
        known = ", ".join(sorted(EFFECTS))
        raise DefinitionError(f"Unknown effects: {', '.join(sorted(map(str, unknown)))}.", fix=f"use some of {known}.")
    return read


def _time(name: str, given: float | str | None) -> float | None:
    if type(given) not in (int, float, str, type(None)):  # a flag is an int, and no time
        raise DefinitionError(f"{name}={given!r} is no time.", fix=f"write {name}=30, '30s' or 'off'.")
    try:
        value = seconds(given) if isinstance(given, str) else given
    except ValueError as error:
        raise DefinitionError(str(error), fix=f"write {name}=30, '30s' or 'off'.") from None
    if value is not None and not value > 0:
        raise DefinitionError(f"{name}={given!r} is no time.", fix="give seconds above zero, or 'off'.")
    return None if value == inf else value


def _times(name: str, given: Any) -> Mapping[str, float | None] | None:
    if given is not None and not isinstance(given, Mapping):
        raise DefinitionError(f"{name}={given!r} names no tools.", fix=f"write {name}={{'get_*': '5m'}}.")
    return None if given is None else {glob: _time(name, each) for glob, each in given.items()}


def _choice(name: str, given: object, choices: Any) -> None:
    known = get_args(choices)
    if given not in known:
        raise DefinitionError(f"{name}={given!r} is not known.", fix=f"use {' or '.join(map(repr, known))}.")
