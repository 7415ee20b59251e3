"""REST tools: a request template becomes a tool, and what sends a request and reads its response for any tool."""
