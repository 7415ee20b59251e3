"""Limits on calls: queues, circuit breakers and the budget of a turn."""
