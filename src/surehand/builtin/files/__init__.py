"""The file tools: read, write, edit, list, move and delete files in a workspace. `tools.py` has the factory `files`."""
