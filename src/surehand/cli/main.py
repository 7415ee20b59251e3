"""Entry point of the command `surehand`. It imports click only when needed, and reports a missing `cli` extra."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from surehand.cli.exit_codes import EXIT_USAGE, print_problem
from surehand.core.extras import install_command

CLI_PACKAGES = {"click", "rich", "yaml"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    try:
        run = import_module("surehand.cli.command_group").run
        code = run(list(sys.argv[1:] if arguments is None else arguments))
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in CLI_PACKAGES:
            raise
        print_problem(f"The command line needs {missing}: {install_command('cli')}")
        code = EXIT_USAGE
    sys.exit(code)


if __name__ == "__main__":
    main()
