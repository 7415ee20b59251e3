"""toolwright: one runtime under any agent. Every capability is one Tool, called one way."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolwright import gateway as gateway
    from toolwright.builtin.clock import clock as clock
    from toolwright.builtin.data import data as data
    from toolwright.builtin.env import env as env
    from toolwright.builtin.files import files as files
    from toolwright.builtin.memory import memory as memory
    from toolwright.builtin.shell import shell as shell
    from toolwright.builtin.todo import todo as todo
    from toolwright.builtin.web import web as web
    from toolwright.builtin.workspace import Workspace as Workspace
    from toolwright.catalogue.catalogue import Catalogue as Catalogue
    from toolwright.catalogue.wrap import filtered as filtered
    from toolwright.catalogue.wrap import prefixed as prefixed
    from toolwright.catalogue.wrap import renamed as renamed
    from toolwright.core import events as events
    from toolwright.core.call import Call as Call
    from toolwright.core.content import Audio as Audio
    from toolwright.core.content import File as File
    from toolwright.core.content import Image as Image
    from toolwright.core.content import Json as Json
    from toolwright.core.content import Resource as Resource
    from toolwright.core.content import Text as Text
    from toolwright.core.context import Context as Context
    from toolwright.core.define import tool as tool
    from toolwright.core.errors import DefinitionError as DefinitionError
    from toolwright.core.errors import Denied as Denied
    from toolwright.core.errors import InvalidArguments as InvalidArguments
    from toolwright.core.errors import NotFound as NotFound
    from toolwright.core.errors import RateLimited as RateLimited
    from toolwright.core.errors import TimedOut as TimedOut
    from toolwright.core.errors import ToolError as ToolError
    from toolwright.core.errors import Unavailable as Unavailable
    from toolwright.core.facets import Cache as Cache
    from toolwright.core.outcome import Done as Done
    from toolwright.core.outcome import Failed as Failed
    from toolwright.core.outcome import Outcome as Outcome
    from toolwright.core.outcome import Pending as Pending
    from toolwright.core.provider import Provider as Provider
    from toolwright.core.signature import use as use
    from toolwright.core.tool import Tool as Tool
    from toolwright.providers import mcp as mcp
    from toolwright.runtime import middleware as middleware
    from toolwright.runtime.approval import Approval as Approval
    from toolwright.runtime.policy import Policy as Policy
    from toolwright.runtime.queues import Queue as Queue
    from toolwright.runtime.runtime import Runtime as Runtime
    from toolwright.sandbox.sandbox import UNPROTECTED as UNPROTECTED
    from toolwright.sandbox.sandbox import Sandbox as Sandbox
    from toolwright.store.retention import Retention as Retention
    from toolwright.store.store import Store as Store

__version__ = "0.1.0"

# Loaded when first asked for, so that importing one name costs no more than that name.
_HOMES = {
    "Approval": "runtime.approval",
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
    "NotFound": "core.errors",
    "Outcome": "core.outcome",
    "Pending": "core.outcome",
    "Policy": "runtime.policy",
    "Provider": "core.provider",
    "Queue": "runtime.queues",
    "RateLimited": "core.errors",
    "Resource": "core.content",
    "Retention": "store.retention",
    "Runtime": "runtime.runtime",
    "Sandbox": "sandbox.sandbox",
    "Store": "store.store",
    "Text": "core.content",
    "TimedOut": "core.errors",
    "Tool": "core.tool",
    "ToolError": "core.errors",
    "UNPROTECTED": "sandbox.sandbox",
    "Unavailable": "core.errors",
    "Workspace": "builtin.workspace",
    "clock": "builtin.clock",
    "data": "builtin.data",
    "env": "builtin.env",
    "files": "builtin.files",
    "filtered": "catalogue.wrap",
    "memory": "builtin.memory",
    "prefixed": "catalogue.wrap",
    "renamed": "catalogue.wrap",
    "shell": "builtin.shell",
    "todo": "builtin.todo",
    "tool": "core.define",
    "use": "core.signature",
    "web": "builtin.web",
}
_MODULES = {
    "events": "core.events",
    "gateway": "gateway",
    "mcp": "providers.mcp",
    "middleware": "runtime.middleware",
}
__all__ = sorted([*_HOMES, *_MODULES])  # noqa: PLE0605 - a list, though made and not written out


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(f"{__name__}.{_MODULES[name]}")
    elif name in _HOMES:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"toolwright has no {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
