"""`assemble`: builds a runtime from a configuration and further sources of tools."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from surehand.agent.runtime import Runtime
from surehand.assemble.agent_middleware import build_agent_middleware
from surehand.assemble.builtin_tools import build_families
from surehand.assemble.defined_tools import build_defined_tool
from surehand.assemble.name_conflicts import ToolGroup, resolve_name_conflicts
from surehand.assemble.tool_sources import SourceItem, ToolSourceError, load_tool_source
from surehand.config.config import Config
from surehand.config.tools_section import ToolSource
from surehand.runtime.pending.pending_call import Approver
from surehand.runtime.policy import Policy
from surehand.runtime.sources import flatten_sources, left_out_tools


def assemble(
    config: Config | None = None,
    *sources: Any,
    store: str | None = None,
    approver: Approver | None = None,
    environment: Mapping[str, str] | None = None,
) -> Runtime:
    """Build a runtime with the tools of the configuration and of further sources.

    Without a policy in the configuration, calls that write, execute or use the network need approval.

    Args:
        store: replaces the store of the configuration.
    """
    config = config or Config()
    environment = os.environ if environment is None else environment
    if store is None and config.store is not None:
        store = config.store.resolve_address(environment)
    groups = list(_tool_groups(config, environment, store))
    items = [
        *resolve_name_conflicts(groups),
        *_load_openapi_documents(config, environment),
        *_load_mcp_servers(config, environment),
        *flatten_sources(sources),
    ]
    runtime = Runtime(
        # By identity, because two sources may import the same tool object.
        *{id(item): item for item in items}.values(),
        store=store,
        policy=Policy.default() if config.policy is None else config.policy,
        queues=config.queues,
        workspace=str(config.workspace.resolve_root(environment)) if config.workspace else None,
        approver=approver,
        defaults=config.defaults,
        middleware=build_agent_middleware(config),
    )
    for name, reason in left_out_tools(group.items for group in groups).items():
        runtime.catalogue.leave_out(name, reason)
    _refuse_switched_off_servers(runtime, config)
    return runtime


def _refuse_switched_off_servers(runtime: Runtime, config: Config) -> None:
    """Let calls of a server that is switched off say so: a model may know its tools from earlier."""
    if config.mcp_servers is None:
        return
    from surehand.assemble.mcp_servers import switched_off_servers  # imports the MCP SDK

    for name, namespace in switched_off_servers(config):
        reason = f"the MCP server {name} is switched off in the configuration"
        runtime.catalogue.leave_out(f"{namespace}__*", reason)


def _tool_groups(config: Config, environment: Mapping[str, str], store: str | None) -> Iterator[ToolGroup]:
    """The tools of the file, one group for each place in it where `on_conflict` can be written."""
    for family, tools in build_families(config, environment, store):
        example = f"builtin: {{{family.name}: {{on_conflict: rename}}}}"
        yield ToolGroup(tools, f"the built-in {family.name}", family.node.error, example, family.on_conflict)
    for source in config.tools:
        example = f"{{source: {source.location}, on_conflict: rename}}"
        yield ToolGroup(_load_source(source, config), source.location, source.error, example, source.on_conflict)
    for entry in config.defined_tools:
        label = f"line {entry.node.line}" if entry.node.line else "another entry"
        example = f"{{name: {entry.name}, on_conflict: rename}}"
        tools = [build_defined_tool(entry, environment)]
        yield ToolGroup(tools, label, entry.node.error, example, entry.on_conflict)
    yield from _rest_tool_groups(config, environment)


def _rest_tool_groups(config: Config, environment: Mapping[str, str]) -> Iterator[ToolGroup]:
    if not config.rest_tools:
        return
    from surehand.assemble.rest_tools import build_rest_tool  # loads what REST tools need

    for entry in config.rest_tools:
        tools = [build_rest_tool(entry, config.queues, environment, config.base_folder)]
        example = f"{entry.name}: {{..., on_conflict: rename}}"
        yield ToolGroup(tools, f"the REST tool {entry.name}", entry.node.error, example, entry.on_conflict)


def _load_source(source: ToolSource, config: Config) -> list[SourceItem]:
    try:
        return load_tool_source(source.location, folder=config.base_folder)
    except ToolSourceError as error:
        raise source.error(str(error)) from error


def _load_openapi_documents(config: Config, environment: Mapping[str, str]) -> Iterable[SourceItem]:
    if not config.openapi:
        return []
    from surehand.assemble.openapi_documents import build_openapi_providers  # loads what OpenAPI documents need

    return build_openapi_providers(config, environment)


def _load_mcp_servers(config: Config, environment: Mapping[str, str]) -> Iterable[SourceItem]:
    if config.mcp_servers is None:
        return []
    from surehand.assemble.mcp_servers import build_mcp_servers  # imports the MCP SDK

    return build_mcp_servers(config, environment)
