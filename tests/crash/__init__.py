"""The crash harness: kills processes at every point of a call and checks the invariants on what is left."""
