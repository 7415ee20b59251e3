"""A runtime served over HTTP: the ASGI app, and the server that runs it."""
