"""Webhooks: waits that are sent out to other programs, and their answers, both signed."""
