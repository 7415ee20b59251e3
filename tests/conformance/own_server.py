"""Our own server under test: a `Runtime` with the tools that the suite calls, defined as in an application."""

from __future__ import annotations

from starlette.applications import Starlette

from surehand import Runtime, gateway
from tests.conformance.own_elicitation_tools import ElicitationTools
from tests.conformance.own_simple_tools import SIMPLE_TOOLS, ChangingTools
from tests.conformance.own_task_tools import TASK_TOOLS


def app() -> Starlette:
    """The ASGI app, with MCP at `/mcp`; tools of providers have no namespace."""
    return gateway.mcp.app(Runtime(*SIMPLE_TOOLS, *TASK_TOOLS, ChangingTools(), ElicitationTools()), short_names=True)
