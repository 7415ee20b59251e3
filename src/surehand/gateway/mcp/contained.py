"""Contained: what goes wrong in a handler stays in our log, and says nothing of this machine to whoever called."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR
from pydantic import ValidationError

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

log = logging.getLogger("surehand")


async def hide_internal_errors(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """A middleware: a plain internal error where the library would send the text of any exception."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as error:
        log.exception("%s failed", ctx.method)
        raise MCPError(code=INTERNAL_ERROR, message="Internal server error") from error
