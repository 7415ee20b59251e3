"""ConfigError: a mistake in a configuration file, with its place. It never quotes values: they may be secrets."""

from __future__ import annotations

from pathlib import Path


class ConfigError(Exception):
    """Says which file and line, what is wrong, and how to mend it."""

    def __init__(self, problem: str, *, path: Path | None = None, line: int | None = None, fix: str = "") -> None:
        self.problem, self.path, self.line, self.fix = problem, path, line, fix
        where = ":".join(str(part) for part in (path, line) if part is not None)
        super().__init__(f"{where + ': ' if where else ''}{problem}{' Fix: ' + fix if fix else ''}")
