"""Our proxy: a `Runtime` with the tools of the MCP SDK's server, served by our gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from surehand import Runtime, gateway, mcp
from tests.conformance import sdk_http
from tests.conformance.own_http import serve_app
from tests.conformance.sdk_server import SdkServer


@asynccontextmanager
async def serve_proxy(protocol: Literal["legacy", "2026-07-28"]) -> AsyncIterator[str]:
    """Start the proxy; gives its URL. `protocol` is the version between the proxy and the server behind it."""
    async with sdk_http.serve_app(SdkServer().app()) as url:
        back = mcp.http(url, namespace="back", protocol=protocol, manifest=False, required=True)
        async with serve_app(gateway.mcp.app(Runtime(back), short_names=True)) as front:
            yield front
