"""Who may do what over HTTP: identities, tokens, limits, and who may answer a call that waits."""
