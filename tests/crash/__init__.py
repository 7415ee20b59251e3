"""The crash harness: processes are killed at every point of a call's life, and a judge looks at what is left."""
