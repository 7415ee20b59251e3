"""Access to the runtime's store for built-in tools, with errors of the store turned into errors for the model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from surehand.core.context import Context
from surehand.core.errors import InvalidArguments, Unavailable
from surehand.store.errors import StoreUnavailable, UnstorableValue

if TYPE_CHECKING:
    from surehand.store.store import Store


@asynccontextmanager
async def runtime_store(ctx: Context) -> AsyncIterator[Store]:
    """The store of the runtime that runs this call."""
    try:
        yield await ctx.store()
    except StoreUnavailable as error:
        raise Unavailable("What is to be remembered cannot be reached now. Try again later.") from error
    except UnstorableValue as error:
        raise InvalidArguments(f"{error} Leave it out.") from None
