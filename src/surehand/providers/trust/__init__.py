"""Trust: which definitions of tools are the ones that somebody has seen."""
