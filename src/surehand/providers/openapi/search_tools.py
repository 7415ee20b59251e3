"""The three tools that stand for a large document: search for operations, describe one, and call one.

A call goes through the named operation's own stack, so that its policy, approval, queue and time limit apply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from surehand.catalogue.listing import Listing
from surehand.catalogue.search import ToolIndex
from surehand.core.context import Context, ToolListing
from surehand.core.define import tool
from surehand.core.description import DescriptionSource
from surehand.core.errors import Denied, NotFound, ToolError
from surehand.core.names import nearest_names, qualified_name
from surehand.core.raw_schema import RawParameters
from surehand.core.tool import Tool
from surehand.providers.openapi.descriptions import clean_description, first_sentence
from surehand.providers.openapi.listings import OperationListings
from surehand.providers.openapi.looked_up_operations import LookedUpOperations
from surehand.providers.openapi.operations import Operation

SEARCH = "search"
DESCRIBE = "describe"
CALL = "call"
SEARCH_TOOL_NAMES = frozenset({SEARCH, DESCRIBE, CALL})
MAX_RESULTS = 50
DEFAULT_RESULTS = 10
_NO_PARAMETERS = RawParameters({})


def build_search_tools(namespace: str, title: str, count: int) -> list[Tool[..., Any]]:
    """The tools for one document of so many operations."""
    about = f"{title or namespace} ({count:,} operations)"
    describe = qualified_name(namespace, DESCRIBE)
    call = qualified_name(namespace, CALL)
    name_property = {"type": "string", "description": "The name of an operation, as the search returns it."}
    reading: dict[str, Any] = {"effects": {"read"}, "category": "network", "visible": False}
    return [
        tool.provided(
            SEARCH,
            f"Search the operations of {about} by words. Returns names and one line about each; see one with "
            f"{describe} before you call it with {call}.",
            parameters=_object_schema(
                {
                    "query": {"type": "string", "description": "Words such as: list open invoices."},
                    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS, "default": DEFAULT_RESULTS},
                },
                ["query"],
            ),
            **reading,
        ),
        tool.provided(
            DESCRIBE,
            f"What an operation of {about} does, and the parameters that it takes.",
            parameters=_object_schema({"name": name_property}, ["name"]),
            **reading,
        ),
        # It has no effect of its own, but is not repeatable: the operation that it calls may be neither.
        tool.provided(
            CALL,
            f"Call an operation of {about} by its name, with arguments as {describe} shows them.",
            parameters=_object_schema(
                {"name": name_property, "arguments": {"type": "object", "description": "The arguments by name."}},
                ["name"],
            ),
            timeout="off",  # the operation's own time limit applies
            repeatable=False,
            **reading,
        ),
    ]


def _object_schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


class OperationSearch:
    """Answers calls of the three tools for the operations of one provider."""

    def __init__(
        self,
        namespace: str,
        operations: Mapping[str, Operation],
        looked_up: LookedUpOperations,
        is_held_back: Callable[[str], bool],
    ) -> None:
        """
        Args:
            is_held_back: whether the definition of an operation waits for a person: models do not see it.
        """
        self._namespace = namespace
        self._is_held_back = is_held_back
        self._operations = operations
        self._looked_up = looked_up
        self._index: ToolIndex | None = None
        self._index_lock = asyncio.Lock()

    async def invoke(self, name: str, arguments: Mapping[str, Any], context: Context) -> Any:
        """Run one of the three tools."""
        if name == SEARCH:
            return await self._search(arguments["query"], arguments.get("limit", DEFAULT_RESULTS), context)
        listings = OperationListings(self._namespace, self._operations, context)
        local_name = listings.find_operation(arguments["name"])
        if local_name is None:
            raise self._unknown_operation(arguments["name"])
        if name == DESCRIBE:
            return self._describe(local_name, listings.find_listing(local_name), context)
        return await context.call(listings.name_of(local_name), arguments.get("arguments"))

    async def _search(self, query: str, limit: int, context: Context) -> list[dict[str, str]]:
        index = await self._load_index()
        listings = OperationListings(self._namespace, self._operations, context)
        found: list[dict[str, str]] = []
        # More than are asked for, because some of them this caller may not use.
        for entry in index.search(query, limit * 4):
            listing = listings.find_listing(entry.tool.name) if len(found) < limit else None
            if listing is not None and not self._is_held_back(entry.tool.name):
                found.append({"name": listing.name, "about": one_line(self._operations[entry.tool.name])})
        return found

    async def _load_index(self) -> ToolIndex:
        async with self._index_lock:
            if self._index is None:
                # In a thread: the texts of thousands of operations take a second.
                self._index = await asyncio.to_thread(self._build_index)
            return self._index

    def _build_index(self) -> ToolIndex:
        index = ToolIndex(self._index_entries())
        index.search("get")  # the index of the words is built by the first search
        return index

    def _index_entries(self) -> Iterable[Listing]:
        """Listings of what an operation says about itself: its real parameters would have to be compiled."""
        for name, operation in self._operations.items():
            description = DescriptionSource(_searched_text(operation), None, name)
            entry: Tool[..., Any] = Tool(name, description, _NO_PARAMETERS, None)
            full_name = qualified_name(self._namespace, name)
            yield Listing(full_name, entry, None, self._namespace, full_name)

    def _describe(self, name: str, listing: ToolListing | None, context: Context) -> dict[str, Any]:
        if self._is_held_back(name):
            raise Denied(f"{name} is held back, because its definition has changed since it was accepted.")
        if listing is None:  # forbidden for this caller
            raise NotFound(f"{name} cannot be called here.")
        self._looked_up.add(context.principal, name)
        return {
            "name": listing.name,
            "description": listing.tool.description,
            "effects": sorted(listing.tool.effects),
            "parameters": listing.tool.schema,
        }

    def _unknown_operation(self, name: str) -> ToolError:
        near = nearest_names(name.removeprefix(f"{self._namespace}__"), self._operations)
        hint = f" Did you mean {', '.join(near)}?" if near else f" Search with {self._namespace}__{SEARCH}."
        error = NotFound(f"{self._namespace} has no operation {name[:100]!r}.{hint}")
        error.executed = False
        return error


def one_line(operation: Operation) -> str:
    """One line about an operation: its request, and the first sentence about it."""
    definition = operation.definition
    text = clean_description(definition.get("summary") or definition.get("description"), 400)
    return f"{operation.label}: {first_sentence(text)}" if text else operation.label


def _searched_text(operation: Operation) -> str:
    definition = operation.definition
    texts = (definition.get("summary"), definition.get("description"))
    described = " ".join(text[:1_000] for text in texts if isinstance(text, str))
    return f"{operation.method} {operation.path} {' '.join(operation.tags)} {described}"
