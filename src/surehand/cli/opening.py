"""Opening: a store alone, for commands that need no tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from surehand.cli.exits import USAGE, Ended
from surehand.cli.options import shown
from surehand.core.errors import DefinitionError
from surehand.store.errors import StoreError
from surehand.store.store import Store


@asynccontextmanager
async def opened(address: str) -> AsyncIterator[Store]:
    """The store while it is open; whatever it cannot do ends the command."""
    with refusals():
        async with Store.open(address) as store:
            yield store


@contextmanager
def refusals() -> Iterator[None]:
    """What a store says that it cannot do, as the end of a command."""
    try:
        yield
    except DefinitionError as error:
        raise Ended(USAGE, shown(error)) from error
    except StoreError as error:
        raise Ended(USAGE, f"The store cannot be used: {shown(error)}") from error
