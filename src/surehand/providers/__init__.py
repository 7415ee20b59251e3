"""Providers: tools that live somewhere else."""
