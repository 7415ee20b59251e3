"""surehand: one runtime under any agent. Every capability is one Tool, called one way.

The public names of the package are here; each is loaded from its module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from surehand.version import __version__ as __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surehand import gateway as gateway
    from surehand import messages as messages
    from surehand.agent import models as models
    from surehand.agent.agent import Agent as Agent
    from surehand.agent.limits import Limits as Limits
    from surehand.agent.models.base import Model as Model
    from surehand.agent.runtime import Runtime as Runtime
    from surehand.builtin.clock import clock as clock
    from surehand.builtin.data import data as data
    from surehand.builtin.env import env as env
    from surehand.builtin.files.tools import files as files
    from surehand.builtin.memory import memory as memory
    from surehand.builtin.shell.tools import shell as shell
    from surehand.builtin.todo import todo as todo
    from surehand.builtin.web.tools import web as web
    from surehand.catalogue.catalogue import Catalogue as Catalogue
    from surehand.catalogue.wrap import filtered as filtered
    from surehand.catalogue.wrap import prefixed as prefixed
    from surehand.catalogue.wrap import renamed as renamed
    from surehand.core import events as events
    from surehand.core import protocols as protocols
    from surehand.core.call import Call as Call
    from surehand.core.content import Audio as Audio
    from surehand.core.content import File as File
    from surehand.core.content import Image as Image
    from surehand.core.content import Json as Json
    from surehand.core.content import OtherBlock as OtherBlock
    from surehand.core.content import Resource as Resource
    from surehand.core.content import Text as Text
    from surehand.core.context import Context as Context
    from surehand.core.define import ServerTool, ToolDecorator
    from surehand.core.define import tool as tool
    from surehand.core.errors import DefinitionError as DefinitionError
    from surehand.core.errors import Denied as Denied
    from surehand.core.errors import InvalidArguments as InvalidArguments
    from surehand.core.errors import NotFound as NotFound
    from surehand.core.errors import RateLimited as RateLimited
    from surehand.core.errors import TimedOut as TimedOut
    from surehand.core.errors import ToolError as ToolError
    from surehand.core.errors import Unavailable as Unavailable
    from surehand.core.event_formats import format_event as format_event
    from surehand.core.facets import Cache as Cache
    from surehand.core.outcome import Done as Done
    from surehand.core.outcome import Failed as Failed
    from surehand.core.outcome import Outcome as Outcome
    from surehand.core.outcome import Pending as Pending
    from surehand.core.provider import Provider as Provider
    from surehand.core.signature import use as use
    from surehand.core.tool import Tool as Tool
    from surehand.providers import mcp as mcp
    from surehand.providers.openapi.factory import openapi as openapi
    from surehand.providers.rest.define import rest as rest
    from surehand.runtime import middleware as middleware
    from surehand.runtime.invocation.approval import Approval as Approval
    from surehand.runtime.limits.queues import Queue as Queue
    from surehand.runtime.policy import Policy as Policy
    from surehand.runtime.worker import Worker as Worker
    from surehand.sandbox.sandbox import UNPROTECTED as UNPROTECTED
    from surehand.sandbox.sandbox import Sandbox as Sandbox
    from surehand.store.retention import Retention as Retention
    from surehand.store.store import Store as Store
    from surehand.workspace.workspace import Workspace as Workspace

# The module of each public name. It is imported when the name is first used, so that `from surehand import tool` does
# not load the rest of the package.
_MODULE_BY_NAME = {
    "Agent": "agent.agent",
    "Approval": "runtime.invocation.approval",
    "Audio": "core.content",
    "Cache": "core.facets",
    "Call": "core.call",
    "Catalogue": "catalogue.catalogue",
    "Context": "core.context",
    "DefinitionError": "core.errors",
    "Denied": "core.errors",
    "Done": "core.outcome",
    "Failed": "core.outcome",
    "File": "core.content",
    "Image": "core.content",
    "InvalidArguments": "core.errors",
    "Json": "core.content",
    "Limits": "agent.limits",
    "Model": "agent.models.base",
    "NotFound": "core.errors",
    "OtherBlock": "core.content",
    "Outcome": "core.outcome",
    "Pending": "core.outcome",
    "Policy": "runtime.policy",
    "Provider": "core.provider",
    "Queue": "runtime.limits.queues",
    "RateLimited": "core.errors",
    "Resource": "core.content",
    "Retention": "store.retention",
    "Runtime": "agent.runtime",
    "Sandbox": "sandbox.sandbox",
    "Store": "store.store",
    "Text": "core.content",
    "TimedOut": "core.errors",
    "Tool": "core.tool",
    "ToolError": "core.errors",
    "UNPROTECTED": "sandbox.sandbox",
    "Unavailable": "core.errors",
    "Worker": "runtime.worker",
    "Workspace": "workspace.workspace",
    "clock": "builtin.clock",
    "data": "builtin.data",
    "env": "builtin.env",
    "files": "builtin.files.tools",
    "filtered": "catalogue.wrap",
    "format_event": "core.event_formats",
    "memory": "builtin.memory",
    "openapi": "providers.openapi.factory",
    "prefixed": "catalogue.wrap",
    "renamed": "catalogue.wrap",
    "rest": "providers.rest.define",
    "shell": "builtin.shell.tools",
    "todo": "builtin.todo",
    "tool": "core.define",  # built by `_build_tool_decorator`
    "use": "core.signature",
    "web": "builtin.web.tools",
}
_PUBLIC_MODULES = {
    "events": "core.events",
    "gateway": "gateway",
    "mcp": "providers.mcp",
    "messages": "messages",
    "models": "agent.models",
    "middleware": "runtime.middleware",
    "protocols": "core.protocols",
}
__all__ = sorted([*_MODULE_BY_NAME, *_PUBLIC_MODULES])  # noqa: PLE0605 - it is a list; ruff only knows literals


def __getattr__(name: str) -> Any:
    if name == "tool":
        value: Any = _build_tool_decorator()
    elif name in _PUBLIC_MODULES:
        value = import_module(f"{__name__}.{_PUBLIC_MODULES[name]}")
    elif name in _MODULE_BY_NAME:
        value = getattr(import_module(f"{__name__}.{_MODULE_BY_NAME[name]}"), name)
    else:
        raise AttributeError(f"surehand has no {name!r}")
    globals()[name] = value
    return value


def _build_tool_decorator() -> ToolDecorator:
    """The decorator `tool`, introduced to the provider of tools that MCP servers run."""
    from surehand.core.define import ToolDecorator

    return ToolDecorator(_build_server_providers)


def _build_server_providers(tools: Sequence[ServerTool]) -> list[Provider]:
    from surehand.providers.mcp.declared_tools import build_providers  # loads what MCP servers need

    return build_providers(tools)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
