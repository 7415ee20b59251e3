"""The operations of a provider among the tools that a call may use, under whatever names the catalogue has them.

`prefixed`, `renamed` and a conflict of names all change the name of a tool, but not the operation that it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping

from surehand.core.context import Context, ToolListing
from surehand.core.names import qualified_name
from surehand.providers.openapi.lazy_tool import OperationParameters
from surehand.providers.openapi.operations import Operation


class OperationListings:
    """Finds operations for one call of a search tool.

    Args:
        operations: by the names that the provider itself gives them.
    """

    def __init__(self, namespace: str, operations: Mapping[str, Operation], context: Context) -> None:
        self._namespace = namespace
        self._operations = operations
        self._context = context
        self._renamed: Mapping[int, ToolListing] | None = None

    def find_listing(self, name: str) -> ToolListing | None:
        """The tool of an operation; None if this caller may not use it."""
        operation = self._operations[name]
        listing = self._context.find(qualified_name(self._namespace, name))
        if listing is not None and _operation_of(listing) is operation:
            return listing
        if self._renamed is None:  # all tools are looked through, but once, and only if a name has changed
            found = ((_operation_of(each), each) for each in self._context.tools)
            self._renamed = {id(each): listing for each, listing in found if each is not None}
        return self._renamed.get(id(operation))

    def name_of(self, name: str) -> str:
        """The full name of an operation's tool. For a caller who may not use it, the one that the refusal is about."""
        listing = self.find_listing(name)
        return qualified_name(self._namespace, name) if listing is None else listing.name

    def find_operation(self, written: str) -> str | None:
        """The name in the provider of what a model names: by its full name, or without the namespace."""
        local_name = written.removeprefix(f"{self._namespace}__")
        for candidate in (written, qualified_name(self._namespace, local_name)):
            listing = self._context.find(candidate)
            operation = None if listing is None else _operation_of(listing)
            if operation is not None and operation is self._operations.get(local_name):
                return local_name
            if operation is not None:
                return next((name for name, each in self._operations.items() if each is operation), None)
        return local_name if local_name in self._operations else None


def _operation_of(listing: ToolListing) -> Operation | None:
    parameters = listing.tool.parameters
    return parameters.operation if isinstance(parameters, OperationParameters) else None
