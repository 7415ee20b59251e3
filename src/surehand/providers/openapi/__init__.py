"""OpenAPI documents as providers: every operation becomes a tool, compiled when it is first described or called."""
