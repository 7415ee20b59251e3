"""The folders that tools may touch: paths are opened beneath a root's descriptor, so that no link leads outside."""
