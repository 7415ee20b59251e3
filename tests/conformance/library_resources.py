"""The resources that the suite expects of a server, on the library alone."""

from __future__ import annotations

import json
import re
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tests.conformance import material

_TEMPLATE = "test://template/{id}/data"


async def listed(context: Any, params: Any) -> types.ListResourcesResult:
    """Those with an address of their own."""
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri="test://static-text", name="text", description="A text.", mime_type="text/plain"),
            types.Resource(uri="test://static-binary", name="dot", description="A dot.", mime_type=material.PIXEL_TYPE),
            types.Resource(
                uri="test://watched-resource", name="watched", description="A text.", mime_type="text/plain"
            ),
        ]
    )


async def templates(context: Any, params: Any) -> types.ListResourceTemplatesResult:
    """Those with a part of the address left out."""
    template = types.ResourceTemplate(uri_template=_TEMPLATE, name="data", description="Data by its number.")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read(context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    """What is there; an error where nothing is."""
    found = _found(str(params.uri))
    if found is None:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": str(params.uri)})
    return types.ReadResourceResult(contents=[found])


async def watch(context: Any, params: Any) -> types.EmptyResult:
    """Nothing ever changes, so there is nothing to remember."""
    return types.EmptyResult()


def _found(uri: str) -> Any:
    match uri:
        case "test://static-text" | "test://watched-resource":
            return _text(uri, "text/plain", "This is the content of the static text resource.")
        case "test://static-binary":
            return types.BlobResourceContents(uri=uri, mime_type=material.PIXEL_TYPE, blob=material.PIXEL)
    if known := re.fullmatch(r"test://template/([^/]+)/data", uri):
        data = {"id": known[1], "templateTest": True, "data": f"Data for ID: {known[1]}"}
        return _text(uri, "application/json", json.dumps(data))
    return None


def _text(uri: str, mime_type: str, content: str) -> types.TextResourceContents:
    return types.TextResourceContents(uri=uri, mime_type=mime_type, text=content)
