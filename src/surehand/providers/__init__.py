"""Providers: sources of tools that run elsewhere, such as MCP servers."""
