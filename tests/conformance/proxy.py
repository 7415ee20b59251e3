"""Our proxy: the library's server behind, a `Runtime` that has its tools, and our server in front."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

from surehand import Runtime, gateway, mcp
from tests.conformance import library_listening as library
from tests.conformance.library_fixture import Fixture
from tests.conformance.listening import listening


@asynccontextmanager
async def proxy(protocol: Literal["legacy", "2026-07-28"]) -> AsyncIterator[str]:
    """Where it is; `protocol` is what it speaks with the server behind."""
    async with library.listening(Fixture().app()) as url:
        back = mcp.http(url, namespace="back", protocol=protocol, manifest=False, required=True)
        async with listening(gateway.mcp.app(Runtime(back), short_names=True)) as front:
            yield front
