"""The command line: people get colour, tables and prompts; pipes get JSON lines."""
