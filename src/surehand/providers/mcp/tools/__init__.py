"""What a server offers and returns: its manifest, tool definitions, JSON Schemas and tool results."""
