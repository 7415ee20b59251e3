"""Transports: open connections to MCP servers, one file each. All but their base
class (`transport.py`) load the MCP SDK, and are imported on first use.

How a server is reached, as a developer configures it, is in `addresses`.
"""
