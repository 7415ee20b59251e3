"""Pending calls: how they are stored, answered and resumed."""
