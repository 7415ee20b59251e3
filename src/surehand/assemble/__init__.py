"""Assemble: the one place where parts meet. From a configuration and sources of tools to a runtime."""

from surehand.assemble.assemble import assemble as assemble
from surehand.assemble.tool_sources import ToolSourceError as ToolSourceError
from surehand.assemble.tool_sources import load_tool_source as load_tool_source
