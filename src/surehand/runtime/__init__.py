"""The pipeline that every call goes through, and what remembers, limits and watches it."""
