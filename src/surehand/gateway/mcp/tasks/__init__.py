"""The MCP tasks extension: calls that run without their request, which clients poll, answer and cancel by id."""
