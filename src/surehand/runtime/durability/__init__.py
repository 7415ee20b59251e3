"""Durability: how calls are recorded in the store, and how the store is maintained."""
