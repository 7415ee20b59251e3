"""How to install an optional dependency, for error messages of every layer."""

from __future__ import annotations


def install_command(*extras: str) -> str:
    """The command that installs extras of this package, for example `install_command("mcp", "server")`.

    The package is not published yet, so the command is for a checkout.
    """
    return f"pip install -e '.[{','.join(extras)}]' in your checkout of surehand"
