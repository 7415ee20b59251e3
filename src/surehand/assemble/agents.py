"""Agents of the configuration, and agents that Python sources define."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from surehand.agent.agent import Agent
from surehand.agent.limits import Limits
from surehand.agent.models.base import Model
from surehand.agent.models.choose import access_variables, choose_model
from surehand.agent.models.rule_based import AnswerRule, RuleBasedModel
from surehand.agent.models.usage import Price
from surehand.assemble.defined_tools import build_defined_tool
from surehand.assemble.tool_sources import load_source_object
from surehand.config.agents_section import AgentEntry
from surehand.config.config import Config
from surehand.config.model_entry import ModelChoice, ModelEntry
from surehand.config.node import ConfigNode
from surehand.config.scripted_model import ScriptedModelEntry
from surehand.core.errors import DefinitionError
from surehand.runtime.sources import split_server_tools

log = logging.getLogger("surehand")


def build_agents(config: Config, environment: Mapping[str, str], defined: Iterable[Agent] = ()) -> list[Agent]:
    """The agents of the configuration.

    Args:
        defined: agents of Python sources, which the file may name in `agents` too.
    """
    for entry in config.agents:
        for warning in entry.warnings:
            log.warning("%s", warning)
    builder = _AgentBuilder(config, environment)
    builder.built |= {agent.name: agent for agent in defined if agent.name not in builder.entries}
    return [builder.build(entry, ()) for entry in config.agents]


class _AgentBuilder:
    """Builds each agent after those that it calls."""

    def __init__(self, config: Config, environment: Mapping[str, str]) -> None:
        self.entries = {entry.name: entry for entry in config.agents}
        self._config = config
        self.built: dict[str, Agent] = {}
        self._environment = environment

    def build(self, entry: AgentEntry, callers: tuple[str, ...]) -> Agent:
        """The agent of an entry; `callers` are the agents that are being built because they name it."""
        if entry.name not in self.built:
            called = [self._find(name, node, (*callers, entry.name)) for name, node in entry.agents.items()]
            self.built[entry.name] = _build_agent(entry, called, self._build_tools(entry), self._environment)
        return self.built[entry.name]

    def _build_tools(self, entry: AgentEntry) -> list[Any] | None:
        tools: list[Any] | None = None
        if entry.tools is not None:
            own_tools, providers = split_server_tools(
                build_defined_tool(each, self._environment) for each in entry.defined_tools
            )
            tools = [*entry.tools, *own_tools, *providers]
        if entry.mcp is None:
            return tools
        from surehand.assemble.mcp_servers import build_mcp_servers  # imports the MCP SDK

        servers = build_mcp_servers(replace(self._config, mcp_servers=entry.mcp), self._environment)
        return [*(["*"] if tools is None else tools), *servers]

    def _find(self, name: str, node: ConfigNode, callers: tuple[str, ...]) -> Agent:
        if name in callers:
            circle = " > ".join([*callers[callers.index(name) :], name])
            raise node.error(f"Agents call each other in a circle: {circle}.", "remove one of them from `agents`.")
        if name in self.built:
            return self.built[name]
        if name not in self.entries:
            known = ", ".join(each for each in {**self.entries, **self.built} if each not in callers)
            raise node.error(
                f"There is no agent {name!r}.", f"name one of {known}." if known else "add it to `agents`."
            )
        return self.build(self.entries[name], callers)


def _build_agent(
    entry: AgentEntry, agents: Sequence[Agent], tools: list[Any] | None, environment: Mapping[str, str]
) -> Agent:
    options: dict[str, Any] = {"output": entry.output, "parameters": entry.parameters}
    if entry.context_window is not None:
        options["context_window"] = entry.context_window
    if entry.approver:
        options["approver"] = _choose_first_model(entry, entry.approver, environment)
    model = _choose_first_model(entry, entry.models, environment)
    try:
        return Agent(
            entry.name,
            model=model,
            instructions=entry.read_instructions(),
            tools=tools,
            agents=agents,
            description=entry.description,
            limits=Limits(**entry.limits),
            **options,
        )
    except (DefinitionError, ValueError) as error:
        raise entry.node.error(_problem(error)) from error


def _choose_first_model(entry: AgentEntry, choices: Sequence[ModelChoice], environment: Mapping[str, str]) -> Model:
    """The first of the models that can be used; a model that is the only one is taken in any case."""
    if len(choices) == 1:
        return _build_model(choices[0], environment)
    for choice in choices:
        if _is_usable(choice, environment):
            return _build_model(choice, environment)
    problem = f"None of the models of {entry.name} can be used: their keys are not set."
    raise entry.node.error(problem, "set the variable of a key, such as OPENAI_API_KEY.")


def _is_usable(entry: ModelChoice, environment: Mapping[str, str]) -> bool:
    """Whether the key or the address of a model is known; a scripted one needs neither."""
    if isinstance(entry, ScriptedModelEntry):
        return True
    if entry.variables:
        return entry.has_variables(environment)
    return any(environment.get(name) for name in access_variables(entry.name))


def _build_model(entry: ModelChoice, environment: Mapping[str, str]) -> Model:
    if isinstance(entry, ScriptedModelEntry):
        return RuleBasedModel([AnswerRule(rule.when, rule.answers) for rule in entry.rules])
    return _build_api_model(entry, environment)


def _build_api_model(entry: ModelEntry, environment: Mapping[str, str]) -> Model:
    options: dict[str, Any] = {**entry.options, **entry.expand(environment)}
    if entry.price is not None:
        options["price"] = Price(**entry.price)
    try:
        return choose_model(entry.expand_name(environment), **options)
    except DefinitionError as error:
        raise entry.node.error(_problem(error)) from error


def _problem(error: Exception) -> str:
    return error.problem if isinstance(error, DefinitionError) else str(error)


def load_agents(source: str, *, folder: str | Path = ".") -> list[Agent]:
    """The agents of `file.py` or `package.module`, or the one that `:object` in one of them names."""
    value = load_source_object(source, folder=folder)
    candidates = vars(value).values() if isinstance(value, ModuleType) else [value]
    return list({id(each): each for each in candidates if isinstance(each, Agent)}.values())
