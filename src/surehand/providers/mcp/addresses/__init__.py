"""How servers are reached, as a developer configures it: one address class per transport. None loads the MCP SDK."""
