"""Imports every document of a large public collection; `scripts/openapi-corpus` runs it."""
