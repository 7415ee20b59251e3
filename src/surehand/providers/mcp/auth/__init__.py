"""Auth: who we are to a server."""
