"""Models: one file for each API that answers an agent's requests, behind one streaming method."""
