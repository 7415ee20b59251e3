"""`ConfigError`, a mistake in a configuration file. Its message never quotes values, because they may be secrets."""

from __future__ import annotations

from pathlib import Path


class ConfigError(Exception):
    """A mistake in a configuration file, with file, line, problem and fix."""

    def __init__(self, problem: str, *, path: Path | None = None, line: int | None = None, fix: str = "") -> None:
        self.problem = problem
        self.path = path
        self.line = line
        self.fix = fix
        location = ":".join(str(part) for part in (path, line) if part is not None)
        prefix = f"{location}: " if location else ""
        suffix = f" Fix: {fix}" if fix else ""
        super().__init__(f"{prefix}{problem}{suffix}")
