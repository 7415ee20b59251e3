"""Trying to leave a workspace: by thousands of strange paths, and by moving folders about meanwhile."""
