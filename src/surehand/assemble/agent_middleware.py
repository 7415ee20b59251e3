"""Middleware of agents of the configuration: it wraps the calls that one agent makes, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from surehand.assemble.tool_sources import ToolSourceError, load_source_object
from surehand.config.agents_section import AgentEntry, MiddlewareEntry
from surehand.config.config import Config
from surehand.core.names import nearest_names

if TYPE_CHECKING:
    from surehand.core.outcome import Outcome
    from surehand.runtime.invocation.invocation import Invocation, NextStage
    from surehand.runtime.pipeline.installed_middleware import Middleware

MIDDLEWARE_NAMES = ("caching", "dry_run", "logging")
"""Ready-made middleware that a file can name; others need functions or secrets, which a Python source gives them."""


def build_agent_middleware(config: Config) -> list[Middleware]:
    """The middleware of all agents of the configuration, in the order of the file."""
    return [middleware for entry in config.agents for middleware in _build_for_agent(entry, config)]


def _build_for_agent(entry: AgentEntry, config: Config) -> Iterator[Middleware]:
    for each in entry.middleware:
        yield _limit_to_agent(entry.name, _build(each, config))


def _build(entry: MiddlewareEntry, config: Config) -> Middleware:
    from surehand.runtime import middleware  # loads the stages of calls

    if entry.ttl is not None:
        return middleware.caching(entry.ttl)
    if entry.name == "logging":
        return middleware.logging()
    if entry.name == "dry_run":
        return middleware.dry_run()
    if ":" in entry.name:
        return cast("Middleware", _load_function(entry, config))
    near = nearest_names(entry.name, MIDDLEWARE_NAMES, 1)
    suggestion = f"did you mean {near[0]!r}? " if near else ""
    fix = f"{suggestion}Write logging, dry_run, {{caching: 5m}}, or file.py:function."
    raise entry.node.error(f"There is no middleware {entry.name!r}.", fix)


def _load_function(entry: MiddlewareEntry, config: Config) -> Any:
    try:
        function = load_source_object(entry.name, folder=config.base_folder)
    except ToolSourceError as error:
        raise entry.node.error(str(error)) from error
    if not callable(function):
        raise entry.node.error(f"{entry.name} is not a function.", "write async def name(call, proceed).")
    return function


def _limit_to_agent(agent: str, middleware: Middleware) -> Middleware:
    async def wrap_calls_of_agent(invocation: Invocation, proceed: NextStage) -> Outcome:
        if invocation.principal.agent != agent:
            return await proceed(invocation)
        return cast("Outcome", await middleware(invocation, proceed))

    return wrap_calls_of_agent
