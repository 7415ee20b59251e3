"""Open connections to MCP servers, one file per transport. Imported when a connection is opened: they load the SDK.

How a server is reached, as a developer configures it, is in `addresses`.
"""
