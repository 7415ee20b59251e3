"""Options that every MCP server takes, whichever transport it uses; the factories of `mcp` validate them here."""

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
    """Limits, choices and names. Durations are seconds, or text such as `30s`, `5m` and `off`."""

    namespace: str | None = None
    """Prefix of the tools' names; None takes the name of the command or host."""
    allow: Sequence[str] = ("*",)
    """Globs of the tools that are offered."""
    deny: Sequence[str] = ()
    """Globs of the tools that are not offered, even if allowed."""
    timeout: float | str | None = 60.0
    """How long a server may send nothing about a call; each progress notification restarts the time."""
    total: float | str | None = 600.0
    """How long a call may take altogether, whatever progress it reports."""
    start_timeout: float | str | None = 30.0
    """How long a starting runtime waits for a server that is required, or whose tools are not in the manifest cache."""
    required: bool = False
    """Whether the runtime fails to start without it; then it is started even if its tools are cached."""
    per: ConnectionSharing = "user"
    """Which calls share a connection: those of one user, of one session, or all."""
    idle: float | str | None = 600.0
    """How long a server runs without a call before it is stopped; the next call starts it again."""
    queue: str | None = None
    """Name of the queue that limits its calls."""
    retries: int = 0
    """How often a repeatable call is retried after the server was unavailable or timed out."""
    cache: float | str | None = None
    """How long results of read-only tools are cached."""
    tools_cache: Mapping[str, float | str | None] | None = None
    """Cache durations of single tools, by glob; the first match counts, and `off` disables caching."""
    probe: ProbeKind = "list"
    """The request that checks its health: `tools/list` or `ping`."""
    probe_every: float | str | None = 60.0
    """How often it is probed while it sends nothing else."""
    effects: Mapping[str, Iterable[str]] | None = None
    """Effects of tools by glob; a list applies to all tools. For tools without an entry the server's annotations can
    only add a confirmation, never remove one."""
    protocol: ProtocolMode = "auto"
    """`legacy` uses the handshake protocol (up to 2025-11-25), `2026-07-28` the modern one; `auto` negotiates."""
    lock: str | PathLike[str] | None = None
    """The lock file that pins definitions; None pins them in memory while the program runs."""
    frozen: bool = False
    """Whether the lock file is read-only: a definition that it does not pin is held back."""
    manifest: bool | str | PathLike[str] = True
    """Whether its last manifest is cached on disk, so that listing starts no server; or the folder of the cache."""
    sessions: int = 100
    """Most open connections, over all users."""
    on_conflict: OnConflict = "rename"
    """What happens to a tool whose name is taken: it gets a number, replaces the other tool, or is an error."""

    def __post_init__(self) -> None:
        for name in _DURATION_OPTIONS:
            object.__setattr__(self, name, _parse_duration(name, getattr(self, name)))
        for name, kind, expected in _OPTION_TYPES:
            value = getattr(self, name)
            is_bool_as_int = kind is int and isinstance(value, bool)
            if not isinstance(value, kind) or is_bool_as_int:
                raise DefinitionError(f"{name}={value!r} has the wrong type.", fix=f"give {expected}.")
        if self.sessions < 1:
            raise DefinitionError(f"`sessions` must be at least 1, got {self.sessions}.", fix="give a larger number.")
        if self.retries < 0:
            raise DefinitionError(f"`retries` must not be negative, got {self.retries}.", fix="give 0 or more.")
        object.__setattr__(self, "effects", _validate_effects(self.effects))
        object.__setattr__(self, "tools_cache", _parse_durations("tools_cache", self.tools_cache))
        _validate_choice("per", self.per, ConnectionSharing)
        _validate_choice("probe", self.probe, ProbeKind)
        _validate_choice("protocol", self.protocol, ProtocolMode)
        _validate_choice("on_conflict", self.on_conflict, OnConflict)
        for name in ("allow", "deny"):
            object.__setattr__(self, name, _validate_globs(name, getattr(self, name)))
        # `__` separates a namespace from a tool's name: the namespace may neither contain it nor end in `_`.
        if self.namespace is not None and (not is_legal_name(self.namespace) or "__" in f"{self.namespace}_"):
            raise DefinitionError(
                f"namespace={self.namespace!r} is not a legal name.",
                fix="use letters, digits, _ and -; not - at the start, _ at the end, or __ anywhere.",
            )

    @classmethod
    def from_mapping(cls, arguments: Mapping[str, Any]) -> ServerOptions:
        """Build options from keyword arguments. An unknown name is an error that names the nearest known one."""
        known = [field.name for field in fields(cls)]
        for name in arguments:
            if name not in known:
                raise DefinitionError(
                    f"{name!r} is not an option of an MCP server.", fix=f"use {_suggest_option(name, known)}."
                )
        return cls(**arguments)

    @property
    def silence_timeout(self) -> float | None:
        """Seconds without progress or a response after which a call fails; None for no limit."""
        return None if self.timeout in (None, inf) else float(self.timeout)


class ServerOptionArguments(TypedDict, total=False):
    """Keyword arguments of the factories: the fields of `ServerOptions`, all optional."""

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
"""Arguments of single factories, which are suggested for misspelled names too."""
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


def _suggest_option(name: str, known: list[str]) -> str:
    if name in _LIKELY_MEANINGS:
        return _LIKELY_MEANINGS[name]
    options = [*known, *_FACTORY_OPTIONS]
    nearest = nearest_names(name, options, 1)
    return nearest[0] if nearest else f"one of {', '.join(options)}"


def _validate_globs(name: str, value: Any) -> tuple[str, ...]:
    is_list = isinstance(value, Iterable) and not isinstance(value, str)
    globs = tuple(value) if is_list else (value,)
    if not all(isinstance(glob, str) for glob in globs):
        raise DefinitionError(
            f"{name}={value!r} is not a list of tool names.", fix="give names, or globs such as 'get_*'."
        )
    return globs


def _validate_effects(value: Any) -> Mapping[str, frozenset[str]] | None:
    """Effects by glob; a list applies to all tools."""
    if value is None:
        return None
    by_glob = value if isinstance(value, Mapping) else {"*": value}
    effects_by_glob = {
        glob: frozenset([effects] if isinstance(effects, str) else effects) for glob, effects in by_glob.items()
    }
    unknown = {effect for effects in effects_by_glob.values() for effect in effects} - EFFECTS
    if unknown:
        known = ", ".join(sorted(EFFECTS))
        raise DefinitionError(f"Unknown effects: {', '.join(sorted(map(str, unknown)))}.", fix=f"use some of {known}.")
    return effects_by_glob


def _parse_duration(name: str, value: float | str | None) -> float | None:
    if type(value) not in (int, float, str, type(None)):  # by exact type: a bool is an int, and not a duration
        raise DefinitionError(f"{name}={value!r} is not a duration.", fix=f"write {name}=30, '30s' or 'off'.")
    try:
        duration = parse_duration(value) if isinstance(value, str) else value
    except ValueError as error:
        raise DefinitionError(str(error), fix=f"write {name}=30, '30s' or 'off'.") from None
    if duration is not None and not duration > 0:
        raise DefinitionError(f"{name}={value!r} is not a duration.", fix="give seconds above zero, or 'off'.")
    return None if duration == inf else duration


def _parse_durations(name: str, durations: Any) -> Mapping[str, float | None] | None:
    if durations is None:
        return None
    if not isinstance(durations, Mapping):
        raise DefinitionError(
            f"{name}={durations!r} is not a mapping of tool names.", fix=f"write {name}={{'get_*': '5m'}}."
        )
    return {glob: _parse_duration(name, duration) for glob, duration in durations.items()}


def _validate_choice(name: str, value: object, choices: Any) -> None:
    known = get_args(choices)
    if value not in known:
        raise DefinitionError(f"{name}={value!r} is not a valid choice.", fix=f"use {' or '.join(map(repr, known))}.")
