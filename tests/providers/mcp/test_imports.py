"""The MCP SDK takes about a second to import, and is not imported before a server is contacted."""

import subprocess
import sys

HEAVY = {"mcp", "mcp_types", "anyio", "httpx2", "httpcore2", "websockets", "uvicorn", "jsonschema", "opentelemetry"}


def loaded_by(code: str) -> set[str]:
    argv = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    return set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())


def test_naming_servers_does_not_load_the_sdk():
    named = """
import surehand
from surehand import mcp
mcp.stdio("mcp-server-git"), mcp.http("https://example.com/mcp"), mcp.sse("https://example.com/sse")
mcp.http("https://example.com/mcp", auth=mcp.oauth())
"""

    assert not HEAVY & loaded_by(named)


def test_a_runtime_with_cached_tools_does_not_load_the_sdk(tmp_path):
    entered = f"""
import asyncio, time
from surehand import Runtime, mcp
from surehand.providers.mcp.tools.manifest import Manifest, ManifestCache

server = mcp.stdio("mcp-server-git", namespace="git", manifest={str(tmp_path)!r})
tools = ({{"name": "log", "description": "The log.", "inputSchema": {{"type": "object"}}}},)
ManifestCache({str(tmp_path)!r}).save(server.address.identity, Manifest(tools=tools, listed_at=time.time()))

async def main():
    async with Runtime(server) as runtime:
        assert [each.name for each in runtime.catalogue.search("log")] == ["git__log"]

asyncio.run(main())
"""

    assert not HEAVY & loaded_by(entered)
