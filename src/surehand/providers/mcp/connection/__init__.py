"""A connection to one MCP server for one user: its session, requests, notifications and elicitations.

Except for the pool, back-off and process marker, these modules load the MCP SDK and are imported on first use.
"""
