"""One module per table: what it stores, the statements that write it, and the queries that read it."""
