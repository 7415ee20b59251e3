"""Why a server that was started as a process ended by itself, as far as its exit code and its stderr tell.

The stdio transport adds the sentence to its error, so that a person need not read the server's output for the common
causes: a port in use, a missing permission, a command that is not found, a variable that is not set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_NOT_EXECUTABLE, _COMMAND_NOT_FOUND = 126, 127
"""Exit codes of a shell that could not start a command."""
_PORT_IN_USE = re.compile(
    r"EADDRINUSE|address already in use|port \S+ is (?:already )?in use|only one usage of each socket address",
    re.IGNORECASE,
)
_PERMISSION = re.compile(r"\bEACCES\b|\bEPERM\b|permission denied|operation not permitted", re.IGNORECASE)
_NOT_FOUND = re.compile(
    r"command not found|execvp \S+: No such file|spawn \S+ ENOENT|exec: \S+: not found|: \d+: \S+: not found"
)
_VARIABLE = r"[\"'`]?(?P<{name}>[A-Z][A-Z0-9]*_[A-Z0-9_]+)[\"'`]?"
_MISSING_VARIABLE = re.compile(
    rf"{_VARIABLE.format(name='before')}[^.\n]{{0,40}}\b(?i:not set|unset|missing|required|undefined|not defined)\b"
    rf"|\b(?i:missing|required|set)\b[^.\n]{{0,40}}?{_VARIABLE.format(name='after')}"
    rf"|KeyError: {_VARIABLE.format(name='key')}"
)


def describe_exit_cause(exit_code: int | None, stderr_lines: Iterable[str]) -> str:
    """The cause in a sentence with its remedy; empty if it is not one of those that are known."""
    for line in reversed(list(stderr_lines)):
        if sentence := _cause_of_line(line):
            return sentence
    if exit_code == _COMMAND_NOT_FOUND:
        return "A command that it runs is not found: install it, or give its full path."
    if exit_code == _NOT_EXECUTABLE:
        return "It lacks a permission: the command that it runs is not executable."
    return ""


def _cause_of_line(line: str) -> str:
    if _PORT_IN_USE.search(line):
        return "The port that it wants is in use: stop the program that listens there, or give it another port."
    if _PERMISSION.search(line):
        return "It lacks a permission: check the rights of the files, folders and ports that it uses."
    if _NOT_FOUND.search(line):
        return "A command that it runs is not found: install it, or give its full path."
    if match := _MISSING_VARIABLE.search(line):
        name = match["before"] or match["after"] or match["key"]
        return f"The environment variable {name} is missing: set it under `env` of the server."
    return ""
