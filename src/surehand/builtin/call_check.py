"""Checks of a call before a person is asked to approve it; file tools and memory tools run them in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from surehand.core.context import Context

CallCheck: TypeAlias = Callable[[Mapping[str, Any], "Context"], Any]
"""Raises the `ToolError` that a call is known to end with; returns what to show the person."""


def check_in_thread(check: CallCheck) -> Callable[[Mapping[str, Any], Context], Awaitable[Any]]:
    """The `preview` of a tool that runs a check in a thread, because it reads files."""

    async def preview(arguments: Mapping[str, Any], ctx: Context) -> Any:
        return await asyncio.to_thread(check, arguments, ctx)

    return preview
