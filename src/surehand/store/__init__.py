"""What is remembered: plain SQL in one portable dialect, on SQLite or PostgreSQL."""
