"""Tools, calls, outcomes and events: the values and protocols that every other package builds on. It does no I/O."""
