"""JSON-RPC 2.0 messages for both sides of MCP: codec, size limits, lines and streams. Imported with a connection."""
