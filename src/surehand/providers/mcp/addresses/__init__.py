"""How MCP servers are reached, as a developer configures it. Light to import: transports are loaded on first use."""
