"""The search tools: find files by name (`glob`) and by content (`grep`), with ripgrep in a sandbox or without it."""
