"""Generates docs/reference/http.md from the OpenAPI document of the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from surehand import Runtime, gateway

PAGE = Path(__file__).parent / "reference" / "http.md"
HEAD = """# The HTTP API

Every route of the gateway, from its OpenAPI document, which `/openapi.json` serves. `scripts/reference` writes this
page, and the tests compare it with the code. [Serve over HTTP](../how-to/serve-over-http.md) explains it; `/mcp` is
described in [The MCP server](mcp-server.md).

Lists are `{items, next}`: give `next` as `cursor` for the next page, until it is null. A page may have fewer items than
`limit`. Errors are problem details (RFC 9457) with `type`, `title`, `status`, `code` and `detail`, and any route may
answer with them: 400 malformed, 401 no valid token, 403 not allowed, 404 unknown or another user's, 405 another method,
413 too large, 415 no JSON, 421 unknown host, 422 invalid, 429 too many, 503 not available.
"""
COMMON_STATUSES = {"400", "401", "403", "404", "405", "409", "410", "413", "415", "421", "422", "429", "503"}


def page() -> str:
    """The whole page."""
    document = gateway.app(Runtime()).openapi()
    parts = [HEAD]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parts += _operation(path, method, operation)
    parts += ["## Bodies\n"]
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts += _schema(name, schema)
    return "\n".join(parts).rstrip() + "\n"


def _operation(path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"## `{method.upper()} {path}`\n\n{operation['description']}\n"
    rows = [
        f"| `{each['name']}` | {each['in']} | {each.get('description', '')} |"
        for each in operation.get("parameters", ())
    ]
    if rows:
        yield "\n".join(["| parameter | in | meaning |", "|---|---|---|", *rows]) + "\n"
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body:
        yield f"Body: {_type(body)}\n"
    for status, response in operation["responses"].items():
        if status not in COMMON_STATUSES:
            content = response.get("content", {})
            kinds = [
                _type(each.get("schema", {})) if name == "application/json" else f"`{name}`"
                for name, each in content.items()
            ]
            yield f"{status}: {' or '.join(dict.fromkeys(kinds)) or 'nothing'}\n"


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    if "properties" not in schema or name in ("HTTPValidationError", "ValidationError"):
        return
    yield f"### {name}\n\n{schema.get('description', '')}\n"
    required = schema.get("required", ())
    rows = [
        f"| `{field}`{' (required)' if field in required else ''} | {_type(each)} | {each.get('description', '')} |"
        for field, each in schema["properties"].items()
    ]
    yield "\n".join(["| field | type | meaning |", "|---|---|---|", *rows]) + "\n"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    return str(schema.get("type", "any JSON"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
