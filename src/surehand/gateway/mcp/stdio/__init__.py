"""Serving MCP over stdin and stdout, one JSON message per line, with a limit on every queue and every wait."""
