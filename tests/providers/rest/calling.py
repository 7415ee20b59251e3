"""A runtime with one REST tool and the server that it calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from surehand import Runtime, Tool, rest
from surehand.core.outcome import Outcome
from tests.http.server import Asked, Server, reply, serving

OK = reply('{"ok":true}', content_type="application/json")


class RestCalls:
    """Calls the tool, and shows what arrived at its server."""

    def __init__(self, server: Server, runtime: Runtime, tool: Tool[..., Any]) -> None:
        self.server = server
        self.runtime = runtime
        self.tool = tool

    async def __call__(self, /, **arguments: Any) -> Outcome:
        return await self.runtime.call(self.tool.name, arguments)

    @property
    def asked(self) -> Asked:
        """The last request that arrived."""
        return self.server.asked[-1]


def object_schema(*required: str, **properties: Any) -> dict[str, Any]:
    """A JSON Schema of an object with these properties."""
    return {"type": "object", "properties": properties, "required": list(required)}


@asynccontextmanager
async def rest_tool(
    method: str,
    path: str,
    *,
    answer: Callable[[Asked], Any] | None = None,
    store: Any = None,
    runtime: Any = None,
    **options: Any,
) -> AsyncIterator[RestCalls]:
    """A tool called `api` for a path of a server on loopback; `runtime` holds options of the `Runtime`."""
    async with serving(answer or (lambda asked: OK)) as server:
        tool = rest(method, f"http://127.0.0.1:{server.port}{path}", **{"name": "api", **options})
        async with Runtime(tool, store=store, **(runtime or {})) as opened:
            yield RestCalls(server, opened, tool)
