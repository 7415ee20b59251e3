"""The MCP SDK server's resources."""

from __future__ import annotations

import json
import re
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tests.conformance import fixture_data

_TEMPLATE = "test://template/{id}/data"


async def list_resources(context: Any, params: Any) -> types.ListResourcesResult:
    """List the resources with a fixed URI."""
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri="test://static-text", name="text", description="A text.", mime_type="text/plain"),
            types.Resource(
                uri="test://static-binary", name="dot", description="A dot.", mime_type=fixture_data.PIXEL_TYPE
            ),
            types.Resource(
                uri="test://watched-resource", name="watched", description="A text.", mime_type="text/plain"
            ),
        ]
    )


async def list_templates(context: Any, params: Any) -> types.ListResourceTemplatesResult:
    """List the resource templates."""
    template = types.ResourceTemplate(uri_template=_TEMPLATE, name="data", description="Data by its number.")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    """Read a resource; an unknown URI is an error."""
    contents = _resource_contents(str(params.uri))
    if contents is None:
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": str(params.uri)})
    return types.ReadResourceResult(contents=[contents])


async def accept_subscription(context: Any, params: Any) -> types.EmptyResult:
    """Accept a subscription without storing it, because the resources never change."""
    return types.EmptyResult()


def _resource_contents(uri: str) -> Any:
    match uri:
        case "test://static-text" | "test://watched-resource":
            return _text(uri, "text/plain", "This is the content of the static text resource.")
        case "test://static-binary":
            return types.BlobResourceContents(
                uri=uri, mime_type=fixture_data.PIXEL_TYPE, blob=fixture_data.PIXEL_BASE64
            )
    if id_match := re.fullmatch(r"test://template/([^/]+)/data", uri):
        data = {"id": id_match[1], "templateTest": True, "data": f"Data for ID: {id_match[1]}"}
        return _text(uri, "application/json", json.dumps(data))
    return None


def _text(uri: str, mime_type: str, content: str) -> types.TextResourceContents:
    return types.TextResourceContents(uri=uri, mime_type=mime_type, text=content)
