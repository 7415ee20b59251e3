"""Kills a gateway while clients call tools, answer calls that wait and read events, and starts it again."""
