"""Tries to leave a workspace: with thousands of hostile paths, and by swapping folders for links at the same time."""
