"""`ConfigError`, a mistake in a configuration file. Values may be secrets: its message quotes only paths of folders."""

from __future__ import annotations

from pathlib import Path

from surehand.core.errors import with_fix


class ConfigError(Exception):
    """A mistake in a configuration file, with file, line, problem and fix."""

    def __init__(self, problem: str, *, path: Path | None = None, line: int | None = None, fix: str = "") -> None:
        self.problem = problem
        self.path = path
        self.line = line
        self.fix = fix
        location = ":".join(str(part) for part in (path, line) if part is not None)
        prefix = f"{location}: " if location else ""
        super().__init__(f"{prefix}{with_fix(problem, fix)}")
