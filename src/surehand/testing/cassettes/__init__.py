"""Cassettes: real calls, recorded once into a file and replayed in later test runs."""
