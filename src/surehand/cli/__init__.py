"""The command line `surehand`: people get colour, tables and prompts; pipes get JSON lines."""
