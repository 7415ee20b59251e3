"""Shell commands in a workspace: the `bash` tools, commands that run to their end, and commands in the background."""
