"""Agents: a model that is asked again and again, with the calls it makes in between."""
