"""Routes: how servers are reached."""
