"""Facets of a tool, in small groups: all that a definition says beside name, description, parameters and handler."""

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

FacetFunction: TypeAlias = (
    Callable[[dict[str, Any], "Context"], Any | Awaitable[Any]] | Callable[[dict[str, Any]], Any | Awaitable[Any]]
)
"""A sync or async function of the arguments, or of the arguments and the context; a tool keeps the latter."""

EFFECTS: frozenset[str] = frozenset({"read", "write", "execute", "network"})
CATEGORIES = ("system", "file", "network", "data", "memory", "code", "mcp", "custom")


@dataclass(frozen=True, slots=True)
class Safety:
    """The effects of a tool, and whether a person has to approve its calls."""

    effects: frozenset[str] = frozenset()
    optional_effects: frozenset[str] = frozenset()
    repeatable: bool = False
    """Whether a call may run twice without harm."""
    confirm: bool | FacetFunction = False
    confirm_message: str | FacetFunction | None = None
    preview: Any | FacetFunction | None = None
    verify: Callable[..., Any] | None = None
    """A function that finds out, after a crash, whether the effect has happened."""
    distrusted_effects: frozenset[str] | None = None
    """The effects under a policy that distrusts annotations; None if `effects` does not come from a remote server."""

    @property
    def required_effects(self) -> frozenset[str]:
        """The effects that every call has: a tool that declares none counts as `read`."""
        return self.effects or frozenset({"read"})


@dataclass(frozen=True, slots=True)
class Cache:
    """Keep a result for `ttl` seconds: one per user and session, or one for all of them if `shared`."""

    ttl: float
    shared: bool = False


@dataclass(frozen=True, slots=True)
class CallLimits:
    """The time limit, retries, cache, queue and output size of a tool's calls."""

    timeout: float | Callable[[dict[str, Any]], float | None] | None = None
    """Seconds per attempt, or a function of the arguments; None takes the limit of the provider or of the runtime."""
    expires: float | None = None
    """Seconds that a call of a client or external tool may wait for its answer, before it ends as `expired`."""
    retries: int = 0
    cache: Cache | None = None
    queue: str | None = None
    priority: int = 0
    """How urgent calls are in the queue, the higher the sooner. A waiting call gains one a second."""
    max_bytes: int | None = None
    overflow: Overflow = "handle"


@dataclass(frozen=True, slots=True)
class Presentation:
    """How a tool is described, and who may see it."""

    category: str = "custom"
    audience: Audience = "model"
    listed: bool = True
    """Whether the tool is described to models. One that is not listed can still be called by its name."""
    toolsets: tuple[str, ...] = ()
    """Named selections that the tool belongs to."""
    aliases: tuple[str, ...] = ()
    visible: bool = True
    intent: Intent = "compute"
    display: Mapping[str, Any] = field(default_factory=dict)
    examples: tuple[Any, ...] = ()
    version: str = ""
    """What tells apart definitions of a remote server that look the same; set by its provider."""
    provider_options: Mapping[str, Any] = field(default_factory=dict)
    posted_argument: str = ""
    """The argument whose text a call posts to the active space; set for the tools that do so."""


Lifespan: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]


HOOK_NAMES = ("on_start", "on_tick_start", "on_tick_end", "on_complete", "on_error", "render", "on_after_compile")
"""The moments of an agent's run at which hooks are called, each with `(data, ctx)`."""


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """Code that runs around a tool: its middleware, its lifespan and its hooks."""

    middleware: tuple[Callable[..., Any], ...] = ()
    lifespan: Lifespan | None = None
    """A context manager that the runtime enters when it starts and exits when it closes; `use` finds its value."""
    mcp_config: Mapping[str, Any] | None = None
    """The MCP server that runs the tool if it has no handler, as an entry of a configuration file describes it."""
    hooks: Mapping[str, Callable[[Any, Any], Any]] = field(default_factory=dict)
    """Functions of `(data, ctx)` that the runs of agents with this tool call, by the name of the moment."""


def validate_facets(
    safety: Safety, limits: CallLimits, presentation: Presentation, lifecycle: Lifecycle, *, where: str
) -> None:
    """Raise `DefinitionError` for facets that can never work."""
    for problem, fix in _find_problems(safety, limits, presentation, lifecycle):
        raise DefinitionError(problem, fix=fix, where=where)


def _find_problems(
    safety: Safety, limits: CallLimits, presentation: Presentation, lifecycle: Lifecycle
) -> list[tuple[str, str]]:
    problems: list[tuple[str, str]] = []
    if unknown := (safety.effects | safety.optional_effects) - EFFECTS:
        known = ", ".join(sorted(EFFECTS))
        problems.append((f"Unknown effects: {', '.join(sorted(unknown))}.", f"use some of {known}."))
    if limits.cache and limits.cache.ttl > 0 and safety.effects - {"read"}:
        effects = ", ".join(sorted(safety.effects - {"read"}))
        fix = "drop `cache`, or declare only `read`."
        if "network" in safety.effects:
            fix += " A call to a host that you wrote down is not `network`: the model does not choose the address."
        problems.append((f"A tool that declares {effects} cannot be cached.", fix))
    problems += _find_type_problems(safety, limits)
    if not isinstance(lifecycle.mcp_config, Mapping | None):
        fix = "give a mapping such as {'serverUrl': 'https://example.com/mcp'}."  # type: ignore[unreachable]  # callers without a type checker
        problems.append((f"mcp_config={lifecycle.mcp_config!r} is not a mapping.", fix))
    problems += _find_hook_problems(lifecycle.hooks)
    if isinstance(limits.timeout, (int, float)) and limits.timeout <= 0:
        problems.append((f"`timeout` must be above zero, got {limits.timeout}.", "give seconds, '30s' or 'off'."))
    if isinstance(limits.expires, (int, float)) and limits.expires <= 0:
        problems.append((f"`expires` must be above zero, got {limits.expires}.", "give seconds, '1h' or 'off'."))
    if _is_instance_not_bool(limits.retries, int) and limits.retries < 0:
        problems.append((f"`retries` must not be negative, got {limits.retries}.", "give zero or more."))
    if limits.overflow not in ("handle", "excerpt"):
        problems.append((f"`overflow` must be 'handle' or 'excerpt', got {limits.overflow!r}.", "use one of them."))
    if presentation.audience not in ("model", "user", "all"):
        problems.append((f"Unknown audience {presentation.audience!r}.", "use model, user or all."))
    if presentation.intent not in ("render", "action", "compute"):
        problems.append((f"Unknown intent {presentation.intent!r}.", "use render, action or compute."))
    return problems


def _find_hook_problems(hooks: Any) -> list[tuple[str, str]]:
    if not isinstance(hooks, Mapping):
        return [(f"hooks={hooks!r} is not a mapping.", "give a mapping such as {'on_start': function}.")]
    known = ", ".join(HOOK_NAMES)
    problems = [(f"There is no hook {name!r}.", f"use some of {known}.") for name in hooks if name not in HOOK_NAMES]
    functions = [(name, hook) for name, hook in hooks.items() if name in HOOK_NAMES]
    return problems + [
        (f"The hook {name}={hook!r} is not a function.", "give a function of (data, ctx).")
        for name, hook in functions
        if not callable(hook)
    ]


def _find_type_problems(safety: Safety, limits: CallLimits) -> list[tuple[str, str]]:
    """Values of a wrong type, which would otherwise fail at the first call."""
    problems: list[tuple[str, str]] = []

    def expect(name: str, value: Any, expected: str, is_valid: bool) -> None:
        if not is_valid:
            problems.append((f"{name}={value!r} cannot be used.", f"give {expected}."))

    confirm = safety.confirm
    expect("confirm", confirm, "True, or a function", callable(confirm) or isinstance(confirm, bool))
    message = safety.confirm_message
    is_message = message is None or isinstance(message, str) or callable(message)
    expect("confirm_message", message, "a text, or a function", is_message)
    timeout = limits.timeout
    is_timeout = timeout is None or callable(timeout) or _is_instance_not_bool(timeout, int, float)
    expect("timeout", timeout, "seconds, '30s', or a function", is_timeout)
    expires = limits.expires
    is_expiry = expires is None or _is_instance_not_bool(expires, int, float)
    expect("expires", expires, "seconds, '1h' or 'off'", is_expiry)
    # A bool is an int in Python: `retries=True` would count as 1.
    expect("retries", limits.retries, "a whole number", _is_instance_not_bool(limits.retries, int))
    queue = limits.queue
    expect("queue", queue, "the name of a queue", queue is None or isinstance(queue, str))
    priority = limits.priority
    expect("priority", priority, "a whole number", _is_instance_not_bool(priority, int))
    max_bytes = limits.max_bytes
    is_size = max_bytes is None or _is_instance_not_bool(max_bytes, int)
    expect("max_bytes", max_bytes, "a number of bytes, or '100kB'", is_size)
    return problems


def _is_instance_not_bool(value: Any, *types: type) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)
