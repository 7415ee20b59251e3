"""Opening: a store alone, for commands that need no tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from surehand.cli.exits import EXIT_USAGE, CommandExit
from surehand.cli.options import error_message
from surehand.core.errors import DefinitionError
from surehand.store.errors import StoreError
from surehand.store.store import Store


@asynccontextmanager
async def open_store(address: str) -> AsyncIterator[Store]:
    """The store while it is open; whatever it cannot do ends the command."""
    with exit_on_store_error():
        async with Store.open(address) as store:
            yield store


@contextmanager
def exit_on_store_error() -> Iterator[None]:
    """What a store says that it cannot do, as the end of a command."""
    try:
        yield
    except DefinitionError as error:
        raise CommandExit(EXIT_USAGE, error_message(error)) from error
    except StoreError as error:
        raise CommandExit(EXIT_USAGE, f"The store cannot be used: {error_message(error)}") from error
