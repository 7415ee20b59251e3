"""What the OpenAPI document says beside the routes: how requests are authenticated, and the answer 405."""

from __future__ import annotations

from typing import Any

from surehand.gateway.access.access_control import PUBLIC_PATHS, SIGNED_PATHS
from surehand.gateway.problems import PROBLEM_MEDIA_TYPE

DESCRIPTION = """Call tools, run agents, answer calls that wait, and follow what happens.

`/mcp` serves the same tools to MCP clients (streamable HTTP, with the same tokens); its messages are those of MCP, and
are not described here."""
_BEARER = "bearer"
_SIGNATURE = "webhook_signature"
_SECURITY_SCHEMES = {
    _BEARER: {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the gateway. A gateway without tokens needs none.",
    },
    _SIGNATURE: {
        "type": "apiKey",
        "in": "header",
        "name": "webhook-signature",
        "description": "Of Standard Webhooks: it covers the body and the headers `webhook-id` and `webhook-timestamp`.",
    },
}
_METHOD_NOT_ALLOWED = {
    "description": "The path, as it was sent, belongs to a route with another method",
    "content": {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}},
}


def complete_document(document: dict[str, Any]) -> None:
    """Add to a document what FastAPI does not know."""
    document["components"]["securitySchemes"] = _SECURITY_SCHEMES
    document["security"] = [{_BEARER: []}]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if path in PUBLIC_PATHS:
                operation["security"] = []
            elif SIGNED_PATHS.fullmatch(path):
                operation["security"] = [{_SIGNATURE: []}]
            if "{" in path:  # an id with a slash makes another path
                responses = {**operation["responses"], "405": _METHOD_NOT_ALLOWED}
                operation["responses"] = dict(sorted(responses.items()))
