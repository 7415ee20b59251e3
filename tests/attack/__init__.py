"""Slow attacks on a runtime, by family, for `scripts/attack`; the fast ones are tests of the folder they are about."""
