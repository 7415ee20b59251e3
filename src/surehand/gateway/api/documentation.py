"""The page `/docs`: every route, as the OpenAPI document describes it, without a script."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from fastapi import FastAPI
from starlette.responses import HTMLResponse

_METHODS = ("get", "post", "put", "delete")


def add_documentation(api: FastAPI) -> None:
    """Add the page to an API."""

    @api.get("/docs", include_in_schema=False)
    async def show_documentation() -> HTMLResponse:
        """Show every route."""
        return HTMLResponse("".join(_render(api.openapi())))


def _render(document: dict[str, Any]) -> Iterator[str]:
    title = escape(document["info"]["title"])
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head><body>'
    yield f'<h1>{title}</h1><p>The whole document: <a href="openapi.json">openapi.json</a></p>'
    for path, operations in sorted(document["paths"].items()):
        for method in _METHODS:
            if method in operations:
                yield from _render_operation(path, method, operations[method])
    yield "</body></html>"


def _render_operation(path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation.get('description', ''))}</p><ul>"
    for each in operation.get("parameters", ()):
        text = escape(each.get("description", ""))
        yield f"<li><code>{escape(each['name'])}</code> ({escape(each['in'])}) {text}</li>"
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    if body:
        yield f"<li>body: <code>{escape(str(body.get('$ref', '')).rpartition('/')[2] or 'object')}</code></li>"
    for status, response in operation["responses"].items():
        yield f"<li>{escape(status)}: {escape(response.get('description', ''))}</li>"
    yield "</ul>"
