"""What happens to calls, as numbered events that clients of the gateway can follow, also over a restart of it."""
