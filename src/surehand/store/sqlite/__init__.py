"""The SQLite database: a file shared by the processes of one machine, or a database in memory."""
