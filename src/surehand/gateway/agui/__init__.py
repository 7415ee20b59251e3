"""AG-UI 1.0, the protocol between agents and front ends: one run of an agent as the events that its clients read."""
