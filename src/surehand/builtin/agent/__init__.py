"""Tools that agents work with: goals, memories, plans, inbox, spaces, earlier tasks, and work for the host to do."""
