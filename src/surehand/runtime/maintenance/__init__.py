"""Maintenance: what a runtime does in the background for the calls in its store."""
