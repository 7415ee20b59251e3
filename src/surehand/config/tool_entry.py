"""A tool that the file itself defines: who runs it (`executionType` or `mcpConfig`), its parameters and its display."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast, get_args

from surehand.config.node import ConfigNode
from surehand.config.parsers import (
    NOT_AVAILABLE,
    known_entries,
    read_duration,
    read_flag,
    read_on_conflict,
    read_text,
    read_texts,
)
from surehand.core.facets import EFFECTS
from surehand.core.provider import OnConflict

ExecutionType: TypeAlias = Literal["gateway", "external", "space", "internal"]
EXECUTION_TYPES: tuple[ExecutionType, ...] = get_args(ExecutionType)
_ENTRY_KEYS = (
    "name", "description", "input_schema", "execution_type", "mcp_config", "visible", "execution", "display",
    "effects", "on_conflict",
)  # fmt: skip
_URL_KEYS = ("url", "webhook_url")
_AGENT_KEYS = ("agent_config", "include_context")
_IMAGE_KEYS = ("provider", "model", "size", "quality")
_EXECUTION_KEYS = (*_URL_KEYS, "method", "headers", "body", "timeout", "display", *_AGENT_KEYS, *_IMAGE_KEYS)
_HTTP_KEYS = (*_URL_KEYS, "method", "headers", "body")
DEFAULT_METHOD_OF_ENTRY = "POST"
_METHODS_WITHOUT_BODY = frozenset({"GET", "HEAD"})
"""Methods whose arguments are sent in the query."""


@dataclass(frozen=True, slots=True)
class HttpExecution:
    """The request that a tool sends."""

    url: str
    method: str = DEFAULT_METHOD_OF_ENTRY
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    """The template of the body; None sends all arguments, in the body or in the query."""

    @property
    def sends_body(self) -> bool:
        """Whether the method sends its arguments in the body."""
        return self.method.upper() not in _METHODS_WITHOUT_BODY


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A tool defined in the file. `space` tools run in a client, `external` ones in another service."""

    name: str
    node: ConfigNode
    execution_type: ExecutionType | None
    """None if an MCP server runs it."""
    description: str = ""
    input_schema: Mapping[str, Any] | None = None
    """The JSON Schema of the arguments; None accepts any arguments, or those that the MCP server accepts."""
    mcp_config: Mapping[str, Any] | None = None
    """The MCP server that runs it."""
    visible: bool | None = None
    """Whether calls are shown in the active space; None for the default of the execution type."""
    display: Mapping[str, Any] = field(default_factory=dict)
    timeout: float | None = None
    http: HttpExecution | None = None
    """The request that it sends; None if a client or another service runs it."""
    effects: tuple[str, ...] = ()
    on_conflict: OnConflict = "error"


def parse_tool_entry(node: ConfigNode) -> ToolEntry:
    """Parse a definition; one that needs a part of surehand that does not exist yet is an error that names it."""
    entries = known_entries(node, _ENTRY_KEYS, aliases={"parameters": "input_schema"})
    if "name" not in entries:
        raise node.error("A tool in the file has no name.", "write name: ....")
    if "execution_type" not in entries and "mcp_config" not in entries:
        raise node.error("A tool in the file has no executionType.", f"use one of {', '.join(EXECUTION_TYPES)}.")
    name = read_text(entries["name"])
    execution_type = _parse_execution_type(entries["execution_type"]) if "execution_type" in entries else None
    if execution_type is not None and "mcp_config" in entries:
        problem = f"{name} has an executionType, so mcpConfig has no effect."
        raise entries["mcp_config"].error(problem, "remove one of them.")
    execution = known_entries(entries["execution"], _EXECUTION_KEYS) if "execution" in entries else {}
    _refuse_unavailable(name, execution)
    http = _parse_http(name, execution_type, execution, entries.get("execution", node))
    effects = tuple(read_texts(entries["effects"])) if "effects" in entries else ()
    if set(effects) - EFFECTS:
        raise entries["effects"].error("effects has an unknown effect.", f"use some of {', '.join(sorted(EFFECTS))}.")
    return ToolEntry(
        name,
        node,
        execution_type,
        description=read_text(entries["description"]) if "description" in entries else "",
        input_schema=_parse_mapping(entries["input_schema"]) if "input_schema" in entries else None,
        mcp_config=_parse_mapping(entries["mcp_config"]) if "mcp_config" in entries else None,
        visible=read_flag(entries["visible"]) if "visible" in entries else None,
        # `display` may stand in `execution` too; a key that is in both counts as it stands at the top.
        display=_parse_mapping(execution.get("display")) | _parse_mapping(entries.get("display")),
        timeout=read_duration(execution["timeout"], is_milliseconds=True) if "timeout" in execution else None,
        http=http,
        effects=effects,
        on_conflict=read_on_conflict(entries["on_conflict"]) if "on_conflict" in entries else "error",
    )


def _parse_execution_type(node: ConfigNode) -> ExecutionType:
    if node.value not in EXECUTION_TYPES:
        raise node.error(f"{node.key} has an unknown value.", f"use {', '.join(EXECUTION_TYPES)}.")
    return cast(ExecutionType, node.value)


def _refuse_unavailable(name: str, execution: Mapping[str, ConfigNode]) -> None:
    for keys, what in ((_AGENT_KEYS, "An agent as a tool"), (_IMAGE_KEYS, "Image generation")):
        for key in keys:
            if key in execution:
                raise execution[key].error(f"{what}, which {name} needs, {NOT_AVAILABLE}.", "remove the tool.")


def _parse_http(
    name: str, execution_type: ExecutionType | None, execution: Mapping[str, ConfigNode], node: ConfigNode
) -> HttpExecution | None:
    """The request of a `gateway` tool, or of an `external` one with a URL."""
    given = [execution[key] for key in _HTTP_KEYS if key in execution]
    urls = [execution[key] for key in _URL_KEYS if key in execution]
    if execution_type in ("space", "internal", None):
        if given:
            raise given[0].error(
                f"{name} calls no URL, so {given[0].key} has no effect.", "use executionType: gateway."
            )
        return None
    if len(urls) > 1:
        raise urls[1].error(f"{name} has a url and a webhookUrl.", "keep one of them.")
    if not urls:
        if execution_type == "gateway":
            raise node.error(f"{name} has nothing to run: execution has no url.", "write url: https://....")
        if given:
            raise given[0].error(f"{name} has no url, so {given[0].key} has no effect.", "write url: https://....")
        return None
    method = read_text(execution["method"]) if "method" in execution else DEFAULT_METHOD_OF_ENTRY
    headers = (
        {key: read_text(each) for key, each in execution["headers"].entries().items()} if "headers" in execution else {}
    )
    body = execution["body"].value if "body" in execution else None
    return HttpExecution(read_text(urls[0]), method, headers, body)


def _parse_mapping(node: ConfigNode | None) -> dict[str, Any]:
    if node is None or node.value is None:
        return {}
    node.entries()
    return dict(node.value)
