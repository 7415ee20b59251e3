"""MCP servers in configuration files: reading the files, validating entries, and substituting variables."""
