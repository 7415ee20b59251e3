"""FastMCP: `FastMCP.from_openapi` of GitHub's document, until its tools are listed."""

from __future__ import annotations

from typing import Any

from fastmcp import FastMCP

from bench.peers.openapi_report import report_import


async def list_names(document: dict[str, Any]) -> list[str]:
    """The names of the tools that the server has."""
    server = FastMCP.from_openapi(openapi_spec=document)
    return [tool.name for tool in await server.list_tools()]


if __name__ == "__main__":
    report_import("fastmcp", "FastMCP.from_openapi", list_names)
