"""The library takes a second to load: nothing does that before a server has to be reached."""

import subprocess
import sys

HEAVY = {"mcp", "mcp_types", "anyio", "httpx2", "httpcore2", "websockets", "uvicorn", "jsonschema", "opentelemetry"}


def loaded_by(code: str) -> set[str]:
    argv = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    return set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())


def test_the_library_is_not_loaded_by_those_who_only_name_servers():
    named = """
import surehand
from surehand import mcp
mcp.stdio("mcp-server-git"), mcp.http("https://example.com/mcp"), mcp.sse("https://example.com/sse")
mcp.http("https://example.com/mcp", auth=mcp.oauth())
"""

    assert not HEAVY & loaded_by(named)


def test_the_library_is_not_loaded_by_a_runtime_that_knows_its_server(tmp_path):
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
