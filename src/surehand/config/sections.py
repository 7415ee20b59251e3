"""Sections: what each part of a configuration file may say, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from surehand.config.errors import ConfigError
from surehand.config.node import ConfigNode
from surehand.config.parsers import (
    NOT_AVAILABLE,
    expand_variables,
    known_entries,
    or_off,
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
from surehand.runtime.defaults import Defaults
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
}
_DEFAULTS_ALIASES = {"tool_response_max_bytes": "max_output", "max_concurrent_tools": "max_concurrent"}
_DEFAULTS_ALIASES |= {f"{name}_ms": name for name in ("tool_timeout", "pending_ttl", "retry_delay", "breaker_pause")}
_UNAVAILABLE_DEFAULTS = ("trace_mcp", "trace_tools")
_DECISIONS = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    """The folder that file paths are meant in, and others that the built-in tools may touch."""

    root: ConfigNode
    writes: bool = True
    extra: tuple[ConfigNode, ...] = ()
    read_only: tuple[ConfigNode, ...] = ()
    sensitive: tuple[str, ...] | None = None

    def options(self, environment: Mapping[str, str]) -> dict[str, Any]:
        """Everything beside the root."""
        named = {"extra": self.extra, "read_only": self.read_only}
        folders = {name: [_resolve_folder(place, environment) for place in places] for name, places in named.items()}
        return {"writes": self.writes, **folders, **({} if self.sensitive is None else {"sensitive": self.sensitive})}

    def resolve_root(self, environment: Mapping[str, str]) -> Path:
        """The folder itself: relative to the configuration file, with its variables filled in."""
        return _resolve_folder(self.root, environment)


def _resolve_folder(node: ConfigNode, environment: Mapping[str, str]) -> Path:
    folder = node.path.parent / Path(expand_variables(node, environment)).expanduser()
    if not folder.is_dir():
        what = "The root of the workspace" if node.key in ("root", "workspace") else "A folder of the workspace"
        raise node.error(f"{what} is no folder.", "make it, or name another one.")
    return folder.resolve()


@dataclass(frozen=True, slots=True)
class StoreSetting:
    """Where calls are remembered."""

    node: ConfigNode

    def resolve_address(self, environment: Mapping[str, str]) -> str:
        """The address itself: a file is meant relative to the configuration file, and variables are filled in."""
        try:
            return resolve_store_address(expand_variables(self.node, environment), self.node.path.parent)
        except ValueError:
            fix = "write store: surehand.db, or store: postgresql://..."
            raise self.node.error("store must be a file or a postgresql:// address.", fix) from None


@dataclass(frozen=True, slots=True)
class ToolSource:
    """Where tools come from: a file or a module, perhaps with one thing in it."""

    location: str
    node: ConfigNode

    def error(self, problem: str) -> ConfigError:
        """What is wrong with it, and where it was asked for."""
        return self.node.error(problem)


def parse_defaults(node: ConfigNode) -> Defaults:
    """The limits that hold where a tool sets none."""
    found = known_entries(node, DEFAULTS_PARSERS, aliases=_DEFAULTS_ALIASES, unavailable=_UNAVAILABLE_DEFAULTS)
    return Defaults(**{name: DEFAULTS_PARSERS[name](inside) for name, inside in found.items()})


def parse_workspace(node: ConfigNode) -> WorkspaceSettings:
    """A folder, or `{root, writes, extra, read_only, sensitive}`."""
    if isinstance(node.value, str):
        read_text(node)
        return WorkspaceSettings(node)
    found = known_entries(
        node, ("root", "writes", "extra", "read_only", "sensitive"), aliases={"allowed_paths": "extra"}
    )
    if "root" not in found:
        raise node.error("workspace has no root.", "write root: .")
    read_text(found["root"])
    return WorkspaceSettings(
        found["root"],
        read_flag(found["writes"]) if "writes" in found else True,
        extra=_folder_nodes(found.get("extra")),
        read_only=_folder_nodes(found.get("read_only")),
        sensitive=tuple(read_texts(found["sensitive"])) if "sensitive" in found else None,
    )


def _folder_nodes(node: ConfigNode | None) -> tuple[ConfigNode, ...]:
    """Folders, one or several."""
    if node is None:
        return ()
    read_texts(node)
    return (node,) if isinstance(node.value, str) else tuple(node.items())


def parse_store(node: ConfigNode) -> StoreSetting:
    """A file, or the address of a PostgreSQL server."""
    read_text(node)
    return StoreSetting(node)


def parse_policy(node: ConfigNode) -> Policy:
    """Rules in order; the first that matches decides."""
    return Policy([_parse_rule(item) for item in node.items("write - {effects: [write], decision: ask}.")])


def _parse_rule(node: ConfigNode) -> Rule:
    found = known_entries(node, ("tools", "effects", "arguments", "decision", "reason"))
    decision = found["decision"].value if "decision" in found else None
    if decision not in _DECISIONS:
        raise found.get("decision", node).error("A rule needs a decision.", f"use {', '.join(_DECISIONS)}.")
    effects = read_texts(found["effects"]) if "effects" in found else []
    if set(effects) - EFFECTS:
        raise found["effects"].error("effects names something unknown.", f"use some of {', '.join(sorted(EFFECTS))}.")
    arguments = found["arguments"].entries() if "arguments" in found else {}
    return Rule(
        cast(Decision, decision),
        tuple(read_texts(found["tools"])) if "tools" in found else ("*",),
        frozenset(effects),
        {name: inside.value for name, inside in arguments.items()},
        read_text(found["reason"]) if "reason" in found else "",
    )


def parse_queues(node: ConfigNode) -> dict[str, Queue]:
    """Named limits: `{github: {concurrent: 3, rate: 30/min, shared: true}}`."""
    return {name: _parse_queue(inside) for name, inside in node.entries().items()}


def _parse_queue(node: ConfigNode) -> Queue:
    found = known_entries(node, ("concurrent", "rate", "shared"))
    pace = read_text(found["rate"]) if "rate" in found else None
    try:
        if pace is not None:
            parse_rate(pace)
    except ValueError:
        raise found["rate"].error("rate must say how many in what time.", "write 30/min, 5/s or 1000/h.") from None
    shared = read_flag(found["shared"]) if "shared" in found else False
    return Queue(read_positive_integer(found["concurrent"]) if "concurrent" in found else None, pace, shared)


def parse_tool_sources(node: ConfigNode) -> tuple[ToolSource, ...]:
    """Files and modules, relative to the configuration file."""
    return tuple(_parse_tool_source(item) for item in node.items("write - tools.py, or - package.module:object."))


def _parse_tool_source(node: ConfigNode) -> ToolSource:
    if isinstance(node.value, dict):
        raise node.error(
            f"A tool that is written out in the file {NOT_AVAILABLE}.", "name a file or module with tools."
        )
    if not isinstance(node.value, str) or not node.value.strip():
        raise node.error("A source of tools must be text.", "write tools.py, or package.module:object.")
    return ToolSource(node.value.strip(), node)
