"""Benchmarks: every number is a ratio to the practical limit, measured in the same run."""
