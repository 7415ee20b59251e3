"""The section `agents`: agents by name, each with a model, instructions, tools and limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from surehand.config.ineffective_keys import find_ineffective_keys, is_left_out_middleware
from surehand.config.mcp_section import McpSection, parse_mcp_servers
from surehand.config.model_entry import ModelChoice, parse_models
from surehand.config.node import ConfigNode
from surehand.config.parsers import (
    known_entries,
    read_duration,
    read_mapping,
    read_number,
    read_positive_integer,
    read_text,
    read_texts,
)
from surehand.config.tool_entry import ToolEntry, parse_tool_entry

_AGENT_KEYS = (
    "model",
    "approver",
    "output",
    "parameters",
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
_LOOP_KEYS = ("max_steps", "max_tokens_per_cycle", "tool_choice")


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
    defined_tools: tuple[ToolEntry, ...] = ()
    """Tools of the agent's own that the file defines."""
    agents: Mapping[str, ConfigNode] = field(default_factory=dict)
    """The agents that it calls, each with its place in the file."""
    mcp: McpSection | None = None
    """MCP servers of the agent's own."""
    middleware: tuple[MiddlewareEntry, ...] = ()
    """What wraps the calls that the agent makes, the outermost first."""
    description: str = ""
    limits: Mapping[str, Any] = field(default_factory=dict)
    context_window: int | None = None
    approver: tuple[ModelChoice, ...] = ()
    """The first that can be used may approve calls; none if empty."""
    output: Mapping[str, Any] | None = None
    """The JSON Schema of the final answer."""
    parameters: Mapping[str, Any] | None = None
    """The JSON Schema of what callers of the agent give."""
    warnings: tuple[str, ...] = ()
    """What in the entry has no effect."""

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
    makes_calls = True
    if "loop" in entries:
        makes_calls = not _allows_no_calls(entries["loop"])
        limits = _parse_loop(entries["loop"]) | limits
    window = entries.get("context_window")
    if window is None and "consciousness" in entries:
        window = known_entries(
            entries["consciousness"], ("max_tokens",), ignored=("min_recent_cycles", "compaction_strategy")
        ).get("max_tokens")
    entry = AgentEntry(
        node,
        name,
        parse_models(entries["model"]),
        instructions=entries.get("instructions"),
        tools=_read_tool_names(entries["tools"]) if "tools" in entries else None,
        defined_tools=_parse_defined_tools(entries["tools"]) if "tools" in entries else (),
        agents=dict.fromkeys(read_texts(entries["agents"]), entries["agents"]) if "agents" in entries else {},
        mcp=parse_mcp_servers(entries["mcp"]) if "mcp" in entries else None,
        middleware=_parse_middleware(entries["middleware"]) if "middleware" in entries else (),
        description=read_text(entries["description"]) if "description" in entries else "",
        limits=limits,
        context_window=read_positive_integer(window) if window is not None else None,
        approver=parse_models(entries["approver"]) if "approver" in entries else (),
        output=read_mapping(entries["output"]) if "output" in entries else None,
        parameters=read_mapping(entries["parameters"]) if "parameters" in entries else None,
        warnings=find_ineffective_keys(node),
    )
    return entry if makes_calls else replace(entry, tools=(), defined_tools=(), agents={}, mcp=None)


def _read_tool_names(node: ConfigNode) -> tuple[str, ...]:
    """The names, globs and toolsets among the entries of `tools`."""
    if not isinstance(node.value, list):
        return tuple(read_texts(node))
    return tuple(read_text(each) for each in node.items() if not isinstance(each.value, dict))


def _parse_defined_tools(node: ConfigNode) -> tuple[ToolEntry, ...]:
    """The entries of `tools` that define a tool."""
    entries = node.items() if isinstance(node.value, list) else []
    return tuple(parse_tool_entry(each) for each in entries if isinstance(each.value, dict))


def _parse_middleware(node: ConfigNode) -> tuple[MiddlewareEntry, ...]:
    """Parse a list of `logging`, `dry_run`, `file.py:function` and `{caching: 5m}`."""
    return tuple(_parse_one_middleware(each) for each in node.items() if not is_left_out_middleware(each))


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
    entries = known_entries(node, _LOOP_KEYS)
    names = {"max_steps": "steps", "max_tokens_per_cycle": "tokens"}
    return {names[name]: read_positive_integer(entry) for name, entry in entries.items() if name in names}


def _allows_no_calls(loop: ConfigNode) -> bool:
    """Whether the model may call nothing: `toolChoice: none`."""
    choice = known_entries(loop, _LOOP_KEYS).get("tool_choice")
    return choice is not None and choice.value == "none"
