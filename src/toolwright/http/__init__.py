"""The one outgoing HTTP client: which addresses may be reached, redirects, limits."""
