"""The base class of providers: sources of tools that are not Python functions, such as MCP servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from surehand.core.call import Call
from surehand.core.context import Context
from surehand.core.facets import ToolKind
from surehand.core.protocols import ProviderTraits
from surehand.core.tool import Tool

OnConflict: TypeAlias = Literal["error", "replace", "rename"]
"""What the catalogue does with a tool whose name is taken already."""


class Provider:
    """A source of tools. A subclass defines `tools` and `invoke`, and whatever it supports of `surehand.protocols`.

    A provider never touches the store and never waits for people: it returns a `Pending` outcome instead.
    """

    kind: ToolKind = "rest"
    namespace: str = ""
    timeout: float | None = None
    """Seconds per attempt, for tools without a time limit of their own."""
    queue: str | None = None
    """The queue of tools that do not name one."""
    cache: float | None = None
    """Seconds for which results are cached, for tools that only read and have no `cache` of their own."""
    required: bool = False
    """Whether the runtime fails to start if the provider does; otherwise it starts without it and logs a warning."""
    on_conflict: OnConflict = "error"
    traits: ProviderTraits = ProviderTraits()
    """What the runtime can rely on in this provider."""

    async def tools(self) -> Sequence[Tool[..., Any]]:
        """The tools that the provider offers now."""
        raise NotImplementedError(f"{type(self).__name__} must define tools().")

    async def invoke(self, call: Call, context: Context) -> Any:
        """Run a tool: `call.tool` is its name without the namespace, `call.arguments` the validated arguments."""
        raise NotImplementedError(f"{type(self).__name__} must define invoke().")
