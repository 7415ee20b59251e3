"""Child processes of tools and MCP servers: sandboxes, resource limits, and reaping of every process they start."""
