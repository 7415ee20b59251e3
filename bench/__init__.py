"""Benchmarks. Every number is a ratio to the practical limit of the same work, measured in the same run."""
