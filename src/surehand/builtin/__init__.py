"""The built-in tools. Each module offers a factory that returns a list of tools, for example `clock.clock()`."""
