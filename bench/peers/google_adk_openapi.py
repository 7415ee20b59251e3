"""ADK: `OpenAPIToolset` of GitHub's document, until its tools are listed."""

from __future__ import annotations

from typing import Any

from google.adk.tools.openapi_tool import OpenAPIToolset

from bench.peers.openapi_report import report_import


async def list_names(document: dict[str, Any]) -> list[str]:
    """The names of the tools that the toolset has."""
    return [tool.name for tool in await OpenAPIToolset(spec_dict=document).get_tools()]


if __name__ == "__main__":
    report_import("google-adk", "OpenAPIToolset", list_names)
