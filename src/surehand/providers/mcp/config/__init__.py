"""Written: servers as people write them into files."""
