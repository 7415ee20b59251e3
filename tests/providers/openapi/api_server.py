"""A server on loopback and a runtime with a document that names it: what the tests of OpenAPI share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

from surehand import Provider, Runtime
from surehand.core.outcome import Outcome
from surehand.providers.openapi.factory import openapi
from surehand.providers.openapi.provider import OpenApiProvider
from tests.http.server import Asked, Server, reply, serving


class Api:
    """Calls operations, and shows what arrived at the server."""

    def __init__(self, server: Server, runtime: Runtime, provider: OpenApiProvider) -> None:
        self.server = server
        self.runtime = runtime
        self.provider = provider

    @property
    def last(self) -> Asked:
        """The request that arrived last."""
        return self.server.asked[-1]

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> Outcome:
        return await self.runtime.call(f"api__{name}", arguments or {})

    async def send(self, name: str, arguments: dict[str, Any] | None = None) -> Asked:
        """Call an operation that must succeed, and return its request."""
        outcome = await self.call(name, arguments)
        assert outcome.ok, outcome
        return self.last

    def schema(self, name: str) -> dict[str, Any]:
        listing = self.runtime.catalogue.find(f"api__{name}")
        assert listing is not None, name
        return listing.tool.schema

    def names(self) -> list[str]:
        return [listing.name.removeprefix("api__") for listing in self.runtime.catalogue]


def ok(_: Asked) -> bytes:
    return reply('{"ok": true}', content_type="application/json")


@asynccontextmanager
async def serving_api(
    document: dict[str, Any],
    answer: Callable[[Asked], Any] = ok,
    *,
    runtime: dict[str, Any] | None = None,
    wrap: Callable[[Provider], Provider] = lambda provider: provider,
    **options: Any,
) -> AsyncIterator[Api]:
    """A runtime with the document, whose server is one on loopback unless it names others."""
    async with serving(answer) as server:
        root = with_server(document, f"http://127.0.0.1:{server.port}")
        provider = openapi(root, namespace="api", **options)
        async with Runtime(wrap(provider), **(runtime or {})) as opened:
            yield Api(server, opened, provider)


def with_server(document: dict[str, Any], url: str) -> dict[str, Any]:
    root = deepcopy(document)
    if "swagger" in root:
        root.setdefault("host", url.removeprefix("http://"))
        root.setdefault("schemes", ["http"])
    else:
        root.setdefault("servers", [{"url": url}])
    return root


def document(paths: dict[str, Any], version: str = "3.0.3", **more: Any) -> dict[str, Any]:
    """A document with these paths; version 2.0 is called `swagger`."""
    key = "swagger" if version == "2.0" else "openapi"
    return {key: version, "info": {"title": "Test", "version": "1"}, "paths": paths, **more}


def operation(**fields: Any) -> dict[str, Any]:
    return {"operationId": "send", "responses": {"200": {"description": "fine"}}, **fields}


def with_parameter(
    path: str = "/x", *, method: str = "get", version: str = "3.0.3", **parameter: Any
) -> dict[str, Any]:
    """A document with one operation, `send`, of one parameter."""
    return document({path: {method: operation(parameters=[parameter])}}, version)


def with_body(
    media_type: str, schema: Any, *, version: str = "3.0.3", method: str = "post", **media: Any
) -> dict[str, Any]:
    """A document with one operation, `send`, with a body."""
    body = {"required": True, "content": {media_type: {"schema": schema, **media}}}
    return document({"/x": {method: operation(requestBody=body)}}, version)
