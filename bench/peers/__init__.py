"""Peers: other libraries' own ways of calling a tool."""
