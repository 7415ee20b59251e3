"""The section `agents`: agents by name, each with a model, instructions, tools and limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from surehand.config.mcp_section import McpSection, parse_mcp_servers
from surehand.config.node import ConfigNode
from surehand.config.parsers import (
    expand_variables,
    known_entries,
    read_duration,
    read_number,
    read_positive_integer,
    read_text,
    read_texts,
    referenced_variables,
    substitute_variables,
)
from surehand.config.scripted_model import ScriptedModelEntry, parse_scripted_model

_AGENT_KEYS = (
    "model",
    "description",
    "instructions",
    "tools",
    "agents",
    "mcp",
    "middleware",
    "limits",
    "context_window",
    "loop",
    "consciousness",
)
_TEXT_FILE_ENDINGS = (".md", ".txt")
_EFFORTS = ("minimal", "low", "medium", "high")


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """The model of an agent, as written in the file."""

    node: ConfigNode
    name: str
    """`provider:name`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options whose values are plain, by the names of the function that chooses a model."""
    variables: Mapping[str, ConfigNode] = field(default_factory=dict)
    """Options that may refer to variables, such as the API key: they are expanded when the model is built."""
    price: Mapping[str, float] | None = None
    """Dollars for a million tokens: `input`, `output` and perhaps `cached_input`."""

    def expand_name(self, environment: Mapping[str, str]) -> str:
        """`provider:name`, with the name from a variable if it refers to one."""
        return substitute_variables(self.node, self.name, environment)

    def has_variables(self, environment: Mapping[str, str]) -> bool:
        """Whether all variables are set that the name, the key and the address refer to."""
        texts = [self.name, *(read_text(node) for node in self.variables.values())]
        return all(environment.get(name) for text in texts for name in referenced_variables(text))

    def expand(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The options that may refer to variables, with their values."""
        return {name: expand_variables(node, environment) for name, node in self.variables.items()}


ModelChoice: TypeAlias = ModelEntry | ScriptedModelEntry


@dataclass(frozen=True, slots=True)
class MiddlewareEntry:
    """One middleware of an agent, as written in the file."""

    node: ConfigNode
    name: str
    """The name of one of ours, or `file.py:function`."""
    ttl: float | None = None
    """For how many seconds `caching` keeps results."""


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """An agent, as written in the file."""

    node: ConfigNode
    name: str
    models: tuple[ModelChoice, ...]
    """The first that can be used is the agent's model."""
    instructions: ConfigNode | None = None
    tools: tuple[str, ...] | None = None
    """Names, globs and toolsets; None: all tools that models may see."""
    agents: Mapping[str, ConfigNode] = field(default_factory=dict)
    """The agents that it calls, each with its place in the file."""
    mcp: McpSection | None = None
    """MCP servers of the agent's own."""
    middleware: tuple[MiddlewareEntry, ...] = ()
    """What wraps the calls that the agent makes, the outermost first."""
    description: str = ""
    limits: Mapping[str, Any] = field(default_factory=dict)
    context_window: int | None = None

    def read_instructions(self) -> str:
        """The instructions: a text, or the content of a file beside the configuration."""
        if self.instructions is None:
            return ""
        text = read_text(self.instructions)
        if not text.strip().endswith(_TEXT_FILE_ENDINGS) or "\n" in text.strip():
            return text
        path = self.instructions.path.parent / Path(text.strip()).expanduser()
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            problem = f"The instructions of {self.name} cannot be read from {text.strip()}: {type(error).__name__}."
            raise self.instructions.error(problem, "name a text file beside the configuration.") from None


def parse_agents(node: ConfigNode) -> tuple[AgentEntry, ...]:
    """Parse the agents by name."""
    example = 'write travel: {model: "openai:gpt-5-mini"}.'
    return tuple(_parse_agent(name, entry) for name, entry in node.entries(example).items())


def _parse_agent(name: str, node: ConfigNode) -> AgentEntry:
    entries = known_entries(
        node,
        _AGENT_KEYS,
        aliases={"system_prompt": "instructions", "prompt": "instructions", "mcp_servers": "mcp"},
        ignored=("version",),
    )
    if "model" not in entries:
        raise node.error(f"The agent {name} has no model.", 'write model: "openai:gpt-5-mini".')
    if "instructions" in entries:
        read_text(entries["instructions"])
    limits = _parse_limits(entries["limits"]) if "limits" in entries else {}
    if "loop" in entries:
        limits = _parse_loop(entries["loop"]) | limits
    window = entries.get("context_window")
    if window is None and "consciousness" in entries:
        window = known_entries(
            entries["consciousness"], ("max_tokens",), unavailable=("min_recent_cycles", "compaction_strategy")
        ).get("max_tokens")
    return AgentEntry(
        node,
        name,
        _parse_models(entries["model"]),
        instructions=entries.get("instructions"),
        tools=tuple(read_texts(entries["tools"])) if "tools" in entries else None,
        agents=dict.fromkeys(read_texts(entries["agents"]), entries["agents"]) if "agents" in entries else {},
        mcp=parse_mcp_servers(entries["mcp"]) if "mcp" in entries else None,
        middleware=_parse_middleware(entries["middleware"]) if "middleware" in entries else (),
        description=read_text(entries["description"]) if "description" in entries else "",
        limits=limits,
        context_window=read_positive_integer(window) if window is not None else None,
    )


def _parse_middleware(node: ConfigNode) -> tuple[MiddlewareEntry, ...]:
    """Parse a list of `logging`, `dry_run`, `file.py:function` and `{caching: 5m}`."""
    return tuple(map(_parse_one_middleware, node.items()))


def _parse_one_middleware(node: ConfigNode) -> MiddlewareEntry:
    if not isinstance(node.value, dict):
        return MiddlewareEntry(node, read_text(node).strip())
    caching = known_entries(node, ("caching",)).get("caching")
    if caching is None:
        raise node.error("The middleware has no name.", "write {caching: 5m}.")
    return MiddlewareEntry(node, "caching", read_duration(caching))


_LIMIT_PARSERS: Mapping[str, Callable[[ConfigNode], Any]] = {
    "steps": read_positive_integer,
    "tokens": read_positive_integer,
    "cost": read_number,
    "seconds": read_duration,
}


def _parse_limits(node: ConfigNode) -> dict[str, Any]:
    entries = known_entries(node, _LIMIT_PARSERS, aliases={"max_steps": "steps", "max_tokens": "tokens"})
    return {name: _LIMIT_PARSERS[name](entry) for name, entry in entries.items()}


def _parse_loop(node: ConfigNode) -> dict[str, Any]:
    """The limits of a think cycle, under their other names."""
    entries = known_entries(node, ("max_steps", "max_tokens_per_cycle", "tool_choice"))
    choice = entries.pop("tool_choice", None)
    if choice is not None and choice.value != "auto":
        raise choice.error(f"{choice.key} can only be auto: the model decides what it calls.", "write auto.")
    names = {"max_steps": "steps", "max_tokens_per_cycle": "tokens"}
    return {names[name]: read_positive_integer(entry) for name, entry in entries.items()}


def _read_effort(node: ConfigNode) -> str | None:
    """How much a model reasons: a word, or `{enabled, effort, summary}`."""
    effort = node
    if isinstance(node.value, dict):
        entries = known_entries(node, ("enabled", "effort"), ignored=("summary",))
        if "enabled" in entries and entries["enabled"].value is False:
            return None
        if "effort" not in entries:
            return "medium"
        effort = entries["effort"]
    if effort.value not in _EFFORTS:
        raise effort.error(f"{effort.key} has an unknown value.", f"use {', '.join(_EFFORTS)}.")
    return str(effort.value)


def _read_mode(node: ConfigNode) -> str:
    if node.value not in ("tools", "json"):
        raise node.error("mode must be tools or json.", "json is for models without native tools.")
    return str(node.value)


def _read_mapping(node: ConfigNode) -> dict[str, Any]:
    return {name: entry.value for name, entry in node.entries().items()}


_MODEL_PARSERS: Mapping[str, Callable[[ConfigNode], Any]] = {
    "mode": _read_mode,
    "temperature": lambda node: read_number(node, may_be_zero=True),
    "max_tokens": read_positive_integer,
    "reasoning": _read_effort,
    "idle_timeout": read_duration,
    "options": _read_mapping,
}
_VARIABLE_KEYS = ("base_url", "api_key")


def _parse_models(node: ConfigNode) -> tuple[ModelChoice, ...]:
    """Parse one model, or a list of which the first that can be used counts."""
    if not isinstance(node.value, list):
        return (_parse_choice(node),)
    models = tuple(_parse_choice(each) for each in node.items())
    if not models:
        raise node.error("The list of models is empty.", 'write model: ["openai:gpt-5-mini"].')
    return models


def _parse_choice(node: ConfigNode) -> ModelChoice:
    if isinstance(node.value, dict) and "scripted" in node.value:
        return parse_scripted_model(known_entries(node, ("scripted",))["scripted"])
    return _parse_model(node)


def _parse_model(node: ConfigNode) -> ModelEntry:
    """Parse `provider:name`, or `{provider, model, base_url, api_key, mode, temperature, ...}`."""
    if isinstance(node.value, str):
        return ModelEntry(node, read_text(node).strip())
    entries = known_entries(
        node, ("provider", "model", "price", *_VARIABLE_KEYS, *_MODEL_PARSERS), aliases={"name": "model"}
    )
    if "model" not in entries:
        raise node.error("The model has no name.", "write model: {provider: openai, model: gpt-5-mini}.")
    name = read_text(entries["model"]).strip()
    if "provider" in entries:
        name = f"{read_text(entries['provider']).strip()}:{name}"
    for key in _VARIABLE_KEYS:
        if key in entries:
            read_text(entries[key])
    return ModelEntry(
        node,
        name,
        options={key: _MODEL_PARSERS[key](entries[key]) for key in _MODEL_PARSERS if key in entries},
        variables={key: entries[key] for key in _VARIABLE_KEYS if key in entries},
        price=_parse_price(entries["price"]) if "price" in entries else None,
    )


def _parse_price(node: ConfigNode) -> dict[str, float]:
    entries = known_entries(node, ("input", "output", "cached_input"))
    if not {"input", "output"} <= entries.keys():
        raise node.error("A price needs input and output.", "write price: {input: 0.25, output: 2}.")
    return {name: read_number(entry, may_be_zero=True) for name, entry in entries.items()}
