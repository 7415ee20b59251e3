"""toolwright: one runtime under any agent. Every capability is one Tool, called one way."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolwright.catalogue.catalogue import Catalogue as Catalogue
    from toolwright.core.call import Call as Call
    from toolwright.core.context import Context as Context
    from toolwright.core.define import tool as tool
    from toolwright.core.errors import DefinitionError as DefinitionError
    from toolwright.core.errors import ToolError as ToolError
    from toolwright.core.facets import Cache as Cache
    from toolwright.core.outcome import Done as Done
    from toolwright.core.outcome import Failed as Failed
    from toolwright.core.outcome import Outcome as Outcome
    from toolwright.core.outcome import Pending as Pending
    from toolwright.core.provider import Provider as Provider
    from toolwright.core.signature import use as use
    from toolwright.core.tool import Tool as Tool
    from toolwright.runtime.approval import Approval as Approval
    from toolwright.runtime.policy import Policy as Policy
    from toolwright.runtime.queues import Queue as Queue
    from toolwright.runtime.runtime import Runtime as Runtime

__version__ = "0.1.0"

# Loaded when first asked for, so that importing one name costs no more than that name.
_HOMES = {
    "Approval": "runtime.approval",
    "Cache": "core.facets",
    "Call": "core.call",
    "Catalogue": "catalogue.catalogue",
    "Context": "core.context",
    "DefinitionError": "core.errors",
    "Done": "core.outcome",
    "Failed": "core.outcome",
    "Outcome": "core.outcome",
    "Pending": "core.outcome",
    "Policy": "runtime.policy",
    "Provider": "core.provider",
    "Queue": "runtime.queues",
    "Runtime": "runtime.runtime",
    "Tool": "core.tool",
    "ToolError": "core.errors",
    "tool": "core.define",
    "use": "core.signature",
}
__all__ = sorted(_HOMES)  # noqa: PLE0605 - a list, though made and not written out


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"toolwright has no {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
