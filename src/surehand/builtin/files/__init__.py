"""The file tools: read, write, edit, list, move and delete files in a workspace. The factory `files` is in `tools.py`."""
