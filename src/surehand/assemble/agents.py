"""Agents of the configuration, and agents that Python sources define."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from surehand.agent.agent import Agent
from surehand.agent.limits import Limits
from surehand.agent.models.base import Model
from surehand.agent.models.choose import choose_model
from surehand.agent.models.usage import Price
from surehand.assemble.tool_sources import load_source_object
from surehand.config.agents_section import AgentEntry, ModelEntry
from surehand.config.config import Config
from surehand.core.errors import DefinitionError


def build_agents(config: Config, environment: Mapping[str, str]) -> list[Agent]:
    """The agents of the configuration."""
    return [_build_agent(entry, environment) for entry in config.agents]


def _build_agent(entry: AgentEntry, environment: Mapping[str, str]) -> Agent:
    options: dict[str, Any] = {}
    if entry.context_window is not None:
        options["context_window"] = entry.context_window
    model = _build_model(entry.model, environment)
    try:
        return Agent(
            entry.name,
            model=model,
            instructions=entry.read_instructions(),
            tools=None if entry.tools is None else list(entry.tools),
            limits=Limits(**entry.limits),
            **options,
        )
    except (DefinitionError, ValueError) as error:
        raise entry.node.error(_problem(error)) from error


def _build_model(entry: ModelEntry, environment: Mapping[str, str]) -> Model:
    options: dict[str, Any] = {**entry.options, **entry.expand(environment)}
    if entry.price is not None:
        options["price"] = Price(**entry.price)
    try:
        return choose_model(entry.name, **options)
    except DefinitionError as error:
        raise entry.node.error(_problem(error)) from error


def _problem(error: Exception) -> str:
    return error.problem if isinstance(error, DefinitionError) else str(error)


def load_agents(source: str, *, folder: str | Path = ".") -> list[Agent]:
    """The agents of `file.py` or `package.module`, or the one that `:object` in one of them names."""
    value = load_source_object(source, folder=folder)
    candidates = vars(value).values() if isinstance(value, ModuleType) else [value]
    return list({id(each): each for each in candidates if isinstance(each, Agent)}.values())
