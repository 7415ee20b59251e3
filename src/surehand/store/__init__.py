"""Durable state: SQL in one portable dialect, on SQLite or PostgreSQL."""
