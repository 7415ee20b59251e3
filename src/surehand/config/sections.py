"""Parsers for the sections `defaults`, `workspace`, `store`, `policy`, `queues` and `log` of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from surehand.config.node import ConfigNode
from surehand.config.parsers import (
    expand_variables,
    known_entries,
    or_off,
    read_count,
    read_duration,
    read_flag,
    read_positive_integer,
    read_size,
    read_text,
    read_texts,
)
from surehand.config.store_address import resolve_store_address
from surehand.core.durations import parse_rate
from surehand.core.facets import EFFECTS
from surehand.runtime.limits.admission import DEFAULT_MAX_WAITING
from surehand.runtime.limits.queues import Queue
from surehand.runtime.policy import Decision, Policy, Rule

DEFAULTS_PARSERS: Mapping[str, Callable[[ConfigNode], Any]] = {
    "tool_timeout": or_off(read_duration),
    "max_output": read_size,
    "max_input": read_size,
    "max_concurrent": or_off(read_positive_integer),
    "pending_ttl": or_off(read_duration),
    "retry_delay": read_duration,
    "breaker_failures": read_positive_integer,
    "breaker_pause": read_duration,
    "mcp_init_concurrency": or_off(read_positive_integer),
    "trace_mcp": read_flag,
    "max_calls_per_turn": or_off(read_positive_integer),
}
_DEFAULTS_ALIASES = {
    "tool_response_max_bytes": "max_output",
    "max_concurrent_tools": "max_concurrent",
    "max_tool_calls_per_turn": "max_calls_per_turn",
    "trace_tools": "trace_mcp",
}
_DEFAULTS_ALIASES |= {f"{name}_ms": name for name in ("tool_timeout", "pending_ttl", "retry_delay", "breaker_pause")}
_DECISIONS = ("allow", "ask", "deny")
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error", "off"]
LOG_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
"""The levels of the log on stderr; from `info` down, each call is a line."""


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    """The root folder of file paths, and further folders that the built-in tools may touch."""

    root: ConfigNode
    writes: bool = True
    extra: tuple[ConfigNode, ...] = ()
    read_only: tuple[ConfigNode, ...] = ()
    sensitive: tuple[str, ...] | None = None
    allowed_paths: tuple[ConfigNode, ...] = ()
    """Folders that the tools are limited to; without any, the whole root may be touched."""

    def options(self, environment: Mapping[str, str]) -> dict[str, Any]:
        """The keyword arguments of `Workspace` beside the root."""
        options: dict[str, Any] = {
            "writes": self.writes,
            "extra": [_resolve_folder(node, environment) for node in self.extra],
            "read_only": [_resolve_folder(node, environment) for node in self.read_only],
        }
        if self.sensitive is not None:
            options["sensitive"] = self.sensitive
        if self.allowed_paths:
            options["allowed_paths"] = [_expand_folder(node, environment) for node in self.allowed_paths]
        return options

    def resolve_root(self, environment: Mapping[str, str]) -> Path:
        """The root folder: relative to the configuration file, with variables expanded."""
        return _resolve_folder(self.root, environment)


def _expand_folder(node: ConfigNode, environment: Mapping[str, str]) -> Path:
    """A folder, relative to the configuration file, whether it exists or not."""
    return (node.path.parent / Path(expand_variables(node, environment)).expanduser()).absolute()


def _resolve_folder(node: ConfigNode, environment: Mapping[str, str]) -> Path:
    folder = _expand_folder(node, environment)
    if not folder.is_dir():
        name = "The root of the workspace" if node.key in ("root", "workspace") else "A folder of the workspace"
        # The path as it is written: the value of a variable in it may be a secret.
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise node.error(f"{name} {problem}: {node.value}.", "create this folder, or name another one.")
    return folder.resolve()


@dataclass(frozen=True, slots=True)
class StoreSetting:
    """The address of the store, as written in the file."""

    node: ConfigNode

    def resolve_address(self, environment: Mapping[str, str]) -> str:
        """The address with variables expanded; a file is relative to the configuration file."""
        try:
            return resolve_store_address(expand_variables(self.node, environment), self.node.path.parent)
        except ValueError:
            fix = "write store: surehand.db, or store: postgresql://..."
            raise self.node.error("store must be a file or a postgresql:// address.", fix) from None


def parse_defaults(node: ConfigNode) -> dict[str, Any]:
    """Parse the limits of tools that set none themselves: values of `Defaults` by name."""
    entries = known_entries(node, DEFAULTS_PARSERS, aliases=_DEFAULTS_ALIASES)
    return {name: DEFAULTS_PARSERS[name](entry) for name, entry in entries.items()}


def parse_log(node: ConfigNode) -> LogLevel:
    """Parse the level of the log. YAML reads `off` as false."""
    level = "off" if node.value is False else node.value
    if not isinstance(level, str) or level.lower() not in LOG_LEVELS:
        raise node.error("log has an unknown level.", f"use {', '.join(LOG_LEVELS)}.")
    return cast(LogLevel, level.lower())


def parse_workspace(node: ConfigNode) -> WorkspaceSettings:
    """Parse a folder, or `{root, writes, extra, read_only, sensitive, allowed_paths}`."""
    if isinstance(node.value, str):
        read_text(node)
        return WorkspaceSettings(node)
    entries = known_entries(node, ("root", "writes", "extra", "read_only", "sensitive", "allowed_paths"))
    if "root" not in entries:
        raise node.error("workspace has no root.", "write root: .")
    read_text(entries["root"])
    return WorkspaceSettings(
        entries["root"],
        read_flag(entries["writes"]) if "writes" in entries else True,
        extra=folder_nodes(entries.get("extra")),
        read_only=folder_nodes(entries.get("read_only")),
        sensitive=tuple(read_texts(entries["sensitive"])) if "sensitive" in entries else None,
        allowed_paths=folder_nodes(entries.get("allowed_paths")),
    )


def folder_nodes(node: ConfigNode | None) -> tuple[ConfigNode, ...]:
    """The nodes of one folder or a list of folders."""
    if node is None:
        return ()
    read_texts(node)
    return (node,) if isinstance(node.value, str) else tuple(node.items())


def parse_store(node: ConfigNode) -> StoreSetting:
    """Parse a file, or the address of a PostgreSQL server."""
    read_text(node)
    return StoreSetting(node)


def parse_policy(node: ConfigNode) -> Policy:
    """Parse the rules of the policy, in order; the first match decides. Or `{trust_annotations, rules}`."""
    if not isinstance(node.value, Mapping):
        return Policy(_parse_rules(node))
    entries = known_entries(node, ("rules", "trust_annotations"))
    trusts = read_flag(entries["trust_annotations"]) if "trust_annotations" in entries else True
    if "rules" not in entries:
        return Policy.default(trust_annotations=trusts)
    return Policy(_parse_rules(entries["rules"]), trust_annotations=trusts)


def _parse_rules(node: ConfigNode) -> list[Rule]:
    return [_parse_rule(item) for item in node.items("write - {effects: [write], decision: ask}.")]


def _parse_rule(node: ConfigNode) -> Rule:
    entries = known_entries(node, ("tools", "effects", "arguments", "decision", "reason"))
    decision = entries["decision"].value if "decision" in entries else None
    if decision not in _DECISIONS:
        problem = "decision must be allow, ask or deny." if "decision" in entries else "A rule needs a decision."
        raise entries.get("decision", node).error(problem, "write decision: ask.")
    effects = read_texts(entries["effects"]) if "effects" in entries else []
    if set(effects) - EFFECTS:
        raise entries["effects"].error(
            "effects contains an unknown effect.", f"use some of {', '.join(sorted(EFFECTS))}."
        )
    arguments = entries["arguments"].entries() if "arguments" in entries else {}
    return Rule(
        cast(Decision, decision),
        tuple(read_texts(entries["tools"])) if "tools" in entries else ("*",),
        frozenset(effects),
        {name: argument.value for name, argument in arguments.items()},
        read_text(entries["reason"]) if "reason" in entries else "",
    )


def parse_queues(node: ConfigNode) -> dict[str, Queue]:
    """Parse named limits: `{github: {concurrent: 3, rate: 30/min, waiting: 100, shared: true}}`."""
    return {name: _parse_queue(entry) for name, entry in node.entries().items()}


def _parse_queue(node: ConfigNode) -> Queue:
    node.entries("write {concurrent: 1}, or {rate: 30/min}.")
    entries = known_entries(node, ("concurrent", "rate", "shared", "waiting"))
    concurrent = read_positive_integer(entries["concurrent"]) if "concurrent" in entries else None
    rate = read_text(entries["rate"]) if "rate" in entries else None
    shared = read_flag(entries["shared"]) if "shared" in entries else False
    waiting = read_count(entries["waiting"]) if "waiting" in entries else DEFAULT_MAX_WAITING
    try:
        if rate is not None:
            parse_rate(rate)
    except ValueError:
        problem = "rate must be a number of calls per unit of time."
        raise entries["rate"].error(problem, "write 30/min, 5/s or 1000/h.") from None
    return Queue(concurrent, rate, shared, waiting)
