"""Builds a runtime from a configuration and sources of tools. Only here do config, builtin and providers meet."""

from surehand.assemble.assemble import assemble as assemble
from surehand.assemble.tool_sources import ToolSourceError as ToolSourceError
from surehand.assemble.tool_sources import load_tool_source as load_tool_source
