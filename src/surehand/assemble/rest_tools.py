"""Builds the REST tools of a configuration file: those of `rest_tools`, and of `tools` with a URL to call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surehand.assemble.http_client import load_http_options
from surehand.config.node import ConfigNode
from surehand.config.rest_section import REST_NAMESPACE, RestToolEntry
from surehand.config.tool_entry import HttpExecution, ToolEntry
from surehand.core.errors import DefinitionError
from surehand.core.names import is_legal_name, qualified_name
from surehand.core.tool import Tool
from surehand.core.tool_options import ToolOptions
from surehand.providers.rest.define import rest

ALL_ARGUMENTS = "{{input}}"
"""The body of a request without a template of its own."""


def build_rest_tool(
    entry: RestToolEntry, queues: Mapping[str, Any], environment: Mapping[str, str], base_folder: Path
) -> Tool[..., Any]:
    """Build a tool of `rest_tools`; mistakes are errors at its position in the file.

    It is called `rest__name`, and its name in the file is an alias.

    Args:
        base_folder: where relative paths begin.
    """
    options = dict(entry.options)
    if "queue" in options and options["queue"] not in queues:
        # As for MCP servers: a file of another program may name a queue that another part of it sets up.
        if queues:
            problem = f"{entry.name} names the queue {options['queue']!r}, which the file does not set up."
            raise entry.node.error(problem, f"use one of {', '.join(queues)}, or add it to queues.")
        del options["queue"]
    aliases = [*([entry.name] if is_legal_name(entry.name) else []), *options.pop("aliases", ())]
    options.setdefault("description", entry.name)
    try:
        if "http" in options:
            options["http"] = load_http_options(options["http"], base_folder)
        built = rest(
            entry.method,
            entry.url,
            name=qualified_name(REST_NAMESPACE, entry.name),
            aliases=aliases,
            environment=environment,
            **options,
        )
        built.compile()
    except DefinitionError as error:
        raise entry.node.error(f"{entry.name}: {error.problem}", error.fix) from error
    return built.evolve(where=location(entry.node))


def build_http_tool(
    entry: ToolEntry, execution: HttpExecution, options: ToolOptions, environment: Mapping[str, str]
) -> Tool[..., Any]:
    """Build a tool of `tools` that calls a URL: without a body template, GET sends its arguments in the query."""
    schema = {"type": "object", "properties": {}, **(entry.input_schema or {})}
    request: dict[str, Any] = {}
    if execution.body is not None:
        request["body"] = execution.body
    elif execution.sends_body:
        request["body"] = ALL_ARGUMENTS
    return rest(
        execution.method,
        execution.url,
        name=entry.name,
        description=entry.description or entry.name,
        parameters=schema,
        headers=execution.headers,
        environment=environment,
        **request,
        **options,
    )


def location(node: ConfigNode) -> str:
    """File and line of a node."""
    return f"{node.path}:{node.line}"
