"""The configuration file (`surehand.yaml`, `.json` or `.toml`): reading it, and parsing its sections into values."""
