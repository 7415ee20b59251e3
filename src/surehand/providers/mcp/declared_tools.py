"""Tools that a program declares itself, and that an MCP server runs: `tool(name=..., mcp_config={...})`.

The runtime builds a `DeclaredTools` provider for each server that the tools among its sources name. Other tools of such
a server are not offered.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from surehand.core.call import Call, Principal
from surehand.core.canonical_json import json_digest
from surehand.core.context import Context
from surehand.core.define import ServerTool
from surehand.core.errors import DefinitionError, NotFound, Unavailable
from surehand.core.facets import ToolKind
from surehand.core.outcome import Failed, Outcome
from surehand.core.protocols import ProviderTraits
from surehand.core.provider import Provider
from surehand.core.tool import Tool
from surehand.providers.mcp.config.server_block import build_server, nearest_namespace
from surehand.providers.mcp.config.server_entry import ServerEntry, parse_server_entry
from surehand.providers.mcp.config.values import FileNode, FileNodeError
from surehand.providers.mcp.config.variables import Variables
from surehand.providers.mcp.labels import namespace_from_command, namespace_from_url
from surehand.providers.mcp.provider import Server

log = logging.getLogger("surehand")


def build_providers(tools: Iterable[ServerTool]) -> list[Provider]:
    """One provider for each server that the tools name; tools with the same `mcp_config` share it."""
    tools_by_config: dict[str, list[ServerTool]] = {}
    for tool in tools:
        tools_by_config.setdefault(json_digest(dict(tool.lifecycle.mcp_config or {})), []).append(tool)
    return [DeclaredTools(_build_server(group), group) for group in tools_by_config.values()]


def _build_server(tools: Sequence[ServerTool]) -> Server:
    first = tools[0]
    try:
        entry = _parse_entry(dict(first.lifecycle.mcp_config or {}))
        if not entry.has_address:
            problem = f"{entry.name} has neither a command nor a url."
            raise DefinitionError(problem, fix="write serverUrl: ..., or command: ....")
        names = [name for tool in tools for name in (_wire_name(tool), tool.name)]
        return build_server(entry, Variables(os.environ), allow=names)
    except FileNodeError as error:
        raise DefinitionError(f"mcp_config: {error.problem}", fix=error.fix, where=first.where) from None
    except DefinitionError as error:
        raise DefinitionError(f"mcp_config: {error.problem}", fix=error.fix, where=first.where) from error


def _parse_entry(config: dict[str, Any]) -> ServerEntry:
    """Parse the configuration. With the transport `stdio`, `serverUrl` is the command."""
    url_key = next((key for key in ("serverUrl", "server_url", "url") if key in config), None)
    if config.get("transport") == "stdio" and url_key is not None and "command" not in config:
        config["command"] = config.pop(url_key)
    name = config.get("serverName") or config.get("server_name") or config.get("name") or _default_name(config)
    return parse_server_entry(str(name), FileNode(config), nearest_namespace(str(name)))


def _default_name(config: Mapping[str, Any]) -> str:
    for key in ("serverUrl", "server_url", "url"):
        if isinstance(config.get(key), str):
            return namespace_from_url(config[key])
    command = config.get("command")
    words = command if isinstance(command, list) else [command, *config.get("args", ())]
    return namespace_from_command([str(word) for word in words]) if command else "server"


def _wire_name(tool: ServerTool) -> str:
    """The name of the tool on its server."""
    return tool.given_name or tool.name


class DeclaredTools(Provider):
    """The declared tools of one server, under the names that the program gives them, without a namespace.

    What the program declares counts: description, parameters, effects and limits. The rest is the server's.
    """

    kind: ToolKind = "mcp"
    traits = ProviderTraits(retries_start=True, tracks_own_health=True, cancels_promptly=True)

    def __init__(self, server: Server, declared: Sequence[ServerTool]) -> None:
        self._server = server
        self._declared = list(declared)
        self.timeout = server.timeout
        self.queue = server.queue
        self.cache = server.cache

    async def start(self) -> None:
        """Start the server. The tools are there even if it does not start: a call then says why."""
        try:
            await self._server.start()
        except Unavailable as error:
            log.warning("The MCP server %s of %s is unavailable: %s", self._server.namespace, self._names, error)
            return
        if missing := [_wire_name(tool) for tool in self._declared if self._find(tool) is None]:
            log.warning("The MCP server %s offers no %s.", self._server.namespace, ", ".join(missing))

    @property
    def _names(self) -> str:
        return ", ".join(tool.name for tool in self._declared)

    async def stop(self) -> None:
        """Stop the server."""
        await self._server.stop()

    async def tools(self) -> Sequence[Tool[..., Any]]:
        """The declared tools, with what the server says where the program says nothing."""
        return [_merge(tool, self._find(tool)) for tool in self._declared]

    def _find(self, declared: ServerTool) -> Tool[..., Any] | None:
        """The server's tool that a declared one stands for; None if the server does not list it."""
        return self._server.find_tool(_wire_name(declared))

    async def refresh(self, principal: Principal | None) -> None:
        """List the server's tools again."""
        await self._server.refresh(principal)

    def has_tools_for(self, principal: Principal) -> bool:
        """True: the program declares the tools, for all users."""
        return True

    def is_hidden_from(self, principal: Principal, tool: str) -> bool:
        """False, as every user may know what the program declares."""
        return False

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call the watcher when the server's tools have changed."""
        return self._server.watch(watcher)

    def trace_messages(self) -> None:
        """Log every message of the server."""
        self._server.trace_messages()

    async def check_call(self, call: Call) -> None:
        """Refuse a call of a tool that the server's lock holds back, or whose server lacks a variable."""
        found = self._find(next(tool for tool in self._declared if tool.name == call.tool))
        if found is not None:
            await self._server.check_call(replace(call, tool=found.name))
        else:
            self._server.check_variables(call)

    async def invoke(self, call: Call, context: Context) -> Any:
        """Send a call to the server, under the name that the server knows."""
        return await self._server.invoke(await self._call_of_server(call), context)

    async def _call_of_server(self, call: Call) -> Call:
        declared = next(tool for tool in self._declared if tool.provider_name == call.tool)
        found = self._find(declared)
        if found is None:
            principal = Principal(user=call.user, session=call.session)
            await self._server.refresh(principal)
            found = self._find(declared)
        if found is None:
            raise NotFound(f"The MCP server {self._server.namespace} offers no {_wire_name(declared)}.")
        return replace(call, tool=found.name)

    async def resume(self, call: Call, state: Any, answer: Any, context: Context) -> Outcome | Any:
        """Resume a call with the answer to the server's question."""
        return await self._server.resume(await self._call_of_server(call), state, answer, context)

    def can_resume_here(self, state: Any) -> bool:
        """Whether this process can deliver the answer."""
        return self._server.can_resume_here(state)

    def resume_failure(self, state: Any) -> Failed | None:
        """The outcome of a call whose open request is lost."""
        return self._server.resume_failure(state)

    async def cancel(self, call: Call, reason: str) -> None:
        """Tell the server that a call was cancelled or timed out."""
        await self._server.cancel(call, reason)


def _merge(declared: ServerTool, listed: Tool[..., Any] | None) -> Tool[..., Any]:
    if listed is None:
        return declared
    safety = declared.safety if declared.effects else replace(listed.safety, **_own_safety(declared))
    options = {**listed.presentation.provider_options, **declared.presentation.provider_options}
    presentation = replace(
        declared.presentation, version=listed.presentation.version, provider_options=options, category="mcp"
    )
    return declared.evolve(
        description_source=declared.description_source if declared.has_description else listed.description_source,
        parameters=declared.parameters if declared.has_parameters else listed.parameters,
        safety=safety,
        presentation=presentation,
    )


def _own_safety(declared: ServerTool) -> dict[str, Any]:
    """The facets beside the effects that the program sets; a confirmation that the server asks for stays."""
    names = ("confirm", "confirm_message", "preview", "verify")
    return {name: value for name in names if (value := getattr(declared.safety, name))}
