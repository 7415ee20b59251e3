"""Child processes: what they see, what they may use up, and that none is left behind."""
