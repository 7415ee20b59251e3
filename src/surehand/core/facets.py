"""Facets: everything about a tool beside its name, description, parameters and handler, in small groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from surehand.core.errors import DefinitionError

if TYPE_CHECKING:
    from surehand.core.context import Context

Effect: TypeAlias = Literal["read", "write", "execute", "network"]
Audience: TypeAlias = Literal["model", "user", "all"]
Intent: TypeAlias = Literal["render", "action", "compute"]
ToolKind: TypeAlias = Literal[
    "function", "client", "external", "hosted", "internal", "provided", "mcp", "rest", "agent"
]

Overflow: TypeAlias = Literal["handle", "excerpt"]
"""What a model is shown of a text beyond `max_bytes`: its handle and beginning, or also its first and last lines."""

FacetFunction: TypeAlias = Callable[[dict[str, Any], "Context"], Any | Awaitable[Any]]
"""A sync or async function of the arguments and the context."""

EFFECTS: frozenset[str] = frozenset({"read", "write", "execute", "network"})
CATEGORIES = ("system", "file", "network", "data", "memory", "code", "mcp", "custom")
HOOK_NAMES = ("on_start", "on_tick_start", "on_tick_end", "on_complete", "on_error", "render", "on_after_compile")


@dataclass(frozen=True, slots=True)
class Safety:
    """What a call may do to the world, and whether a person is asked first."""

    effects: frozenset[str] = frozenset()
    optional_effects: frozenset[str] = frozenset()
    repeatable: bool = False
    """Whether running it twice does no harm."""
    confirm: bool | FacetFunction = False
    confirm_message: str | FacetFunction | None = None
    preview: Any | FacetFunction | None = None
    verify: Callable[..., Any] | None = None
    """Finds out, after a crash, whether the effect has happened."""

    @property
    def policy_effects(self) -> frozenset[str]:
        """What policy looks at: a tool that declares nothing counts as reading."""
        return self.effects or frozenset({"read"})


@dataclass(frozen=True, slots=True)
class Cache:
    """Keep a result for `ttl` seconds; per user unless `shared`."""

    ttl: float
    shared: bool = False


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How long, how often, how many at once, how large."""

    timeout: float | Callable[[dict[str, Any]], float | None] | None = None
    """Seconds per attempt, or a function of the arguments; None takes the provider's or the default."""
    retries: int = 0
    cache: Cache | None = None
    queue: str | None = None
    max_bytes: int | None = None
    overflow: Overflow = "handle"


@dataclass(frozen=True, slots=True)
class Presentation:
    """How a tool is shown, and to whom."""

    category: str = "custom"
    audience: Audience = "model"
    listed: bool = True
    """Whether models are told of it; one that is not listed is still found and called by its name."""
    toolsets: tuple[str, ...] = ()
    """Named selections that it belongs to."""
    aliases: tuple[str, ...] = ()
    visible: bool = True
    intent: Intent = "compute"
    display: Mapping[str, Any] = field(default_factory=dict)
    examples: tuple[Any, ...] = ()
    version: str = ""
    requires: tuple[str, ...] = ()
    """Tools that must be there for this one to be of use."""
    provider_options: Mapping[str, Any] = field(default_factory=dict)


Lifespan: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """What surrounds a tool's calls."""

    middleware: tuple[Callable[..., Any], ...] = ()
    lifespan: Lifespan | None = None
    """Entered when the runtime starts and left when it closes; its value is offered to `use`."""
    hooks: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


def validate_facets(
    safety: Safety, limits: CallLimits, presentation: Presentation, lifecycle: Lifecycle, *, where: str
) -> None:
    """Refuse what can never work, at definition."""
    for problem, fix in _find_problems(safety, limits, presentation, lifecycle):
        raise DefinitionError(problem, fix=fix, where=where)


def _find_problems(
    safety: Safety, limits: CallLimits, presentation: Presentation, lifecycle: Lifecycle
) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if unknown := (safety.effects | safety.optional_effects) - EFFECTS:
        found.append((f"Unknown effects: {', '.join(sorted(unknown))}.", f"use some of {', '.join(sorted(EFFECTS))}."))
    if limits.cache and limits.cache.ttl > 0 and safety.effects - {"read"}:
        more = ", ".join(sorted(safety.effects - {"read"}))
        found.append((f"A tool that declares {more} cannot be cached.", "drop `cache`, or declare only `read`."))
    found += _find_type_problems(safety, limits)
    if isinstance(limits.timeout, (int, float)) and limits.timeout <= 0:
        found.append((f"timeout={limits.timeout} is no time limit.", "give seconds above zero."))
    if _is_instance_not_bool(limits.retries, int) and limits.retries < 0:
        found.append((f"retries={limits.retries} is no number of retries.", "give zero or more."))
    if limits.overflow not in ("handle", "excerpt"):
        found.append((f"`overflow` must be 'handle' or 'excerpt', got {limits.overflow!r}.", "use one of them."))
    if presentation.audience not in ("model", "user", "all"):
        found.append((f"Unknown audience {presentation.audience!r}.", "use model, user or all."))
    if presentation.intent not in ("render", "action", "compute"):
        found.append((f"Unknown intent {presentation.intent!r}.", "use render, action or compute."))
    if strange := set(lifecycle.hooks) - set(HOOK_NAMES):
        found.append((f"Unknown hooks: {', '.join(sorted(strange))}.", f"use some of {', '.join(HOOK_NAMES)}."))
    return found


def _find_type_problems(safety: Safety, limits: CallLimits) -> list[tuple[str, str]]:
    """Values that would only be found out at a call."""
    confirm, timeout, queue, most = safety.confirm, limits.timeout, limits.queue, limits.max_bytes
    good = {
        ("confirm", "True, or a function"): callable(confirm) or isinstance(confirm, bool),
        ("timeout", "seconds, '30s', or a function"): timeout is None
        or callable(timeout)
        or _is_instance_not_bool(timeout, int, float),
        ("retries", "a whole number"): _is_instance_not_bool(limits.retries, int),
        ("queue", "the name of a queue"): queue is None or isinstance(queue, str),
        ("max_bytes", "a number of bytes, or '100kB'"): most is None or _is_instance_not_bool(most, int),
    }
    given = {"confirm": confirm, "timeout": timeout, "retries": limits.retries, "queue": queue, "max_bytes": most}
    wrong = [(name, fix) for (name, fix), is_good in good.items() if not is_good]
    return [(f"{name}={given[name]!r} cannot be used.", f"give {fix}.") for name, fix in wrong]


def _is_instance_not_bool(value: Any, *types: type) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)
