"""OAuth for MCP servers at a URL: grants, the tokens of each user, and the command that signs in."""
