"""Outgoing HTTP for the whole package: `httpx2` over one guarded transport.

`client.HttpClient` serves the web tools, `transport.GuardedClient` the MCP SDK and OAuth. Both permit only some
addresses, check every redirect, and limit the size of what they read.
"""
