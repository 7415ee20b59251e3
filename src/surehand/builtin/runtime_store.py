"""Access to the runtime's store for built-in tools, with errors of the store turned into errors for the model.

Also the options of those tools that change what an agent keeps for itself there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypedDict

from surehand.core.context import Context
from surehand.core.errors import InvalidArguments, Unavailable
from surehand.store.errors import StoreUnavailable, UnstorableValue

if TYPE_CHECKING:
    from surehand.store.store import Store


class OwnNotesOptions(TypedDict):
    """The type of `OWN_NOTES_OPTIONS`."""

    repeatable: bool
    visible: bool


OWN_NOTES_OPTIONS: OwnNotesOptions = {"repeatable": True, "visible": False}
"""Options of a tool that changes only what its caller keeps for itself: notes, a todo list, an inbox, the active space.

It declares no effects. With `write`, `Policy.default()` would ask a person about every note. With `read`, a cache or a
dry run over all tools would take it for a question, and MCP clients would be told that it is read-only. It is
repeatable: new notes get keys derived from the call, and the inbox knows which call took an event, so that the same
call again adds and takes nothing more.
"""


@asynccontextmanager
async def runtime_store(ctx: Context) -> AsyncIterator[Store]:
    """The store of the runtime that runs this call."""
    try:
        yield await ctx.store()
    except StoreUnavailable as error:
        raise Unavailable("What is to be remembered cannot be reached now. Try again later.") from error
    except UnstorableValue as error:
        raise InvalidArguments(f"{error} Leave it out.") from None
