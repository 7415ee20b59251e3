"""Tools for the web: reading pages, sending HTTP requests and searching, all through the one guarded HTTP client."""
