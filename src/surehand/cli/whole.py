"""Whole: a command that does the same from any folder, for programs that start it by themselves."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from surehand.cli.options import Given
from surehand.config.address import without_password
from surehand.config.config import find_config


def whole(given: Given, verb: str, *words: str) -> list[str]:
    """The words of a command with the same options, every file among them with its whole path."""
    config = given.config or (None if given.tools else find_config())
    sources = tuple(map(_source, given.tools))
    made = replace(given, tools=sources, config=str(Path(config).resolve()) if config else None)
    found = shlex.split(made.command(verb, *words))
    if given.store is not None:  # which is a whole path, but is shown to people as seen from where they are
        found[found.index("--store") + 1] = without_password(given.store)
    return [_program(), *found[1:]]


def _source(source: str) -> str:
    """A file with its whole path; a module is found by its name anywhere."""
    file, colon, wanted = (source, "", "") if source.endswith(".py") else source.rpartition(":")
    return f"{Path(file).resolve()}{colon}{wanted}" if file.endswith(".py") else source


def _program() -> str:
    """The running script, so that it is this installation that is started."""
    found = shutil.which(sys.argv[0])
    return os.path.abspath(found) if found and Path(found).stem == "surehand" else "surehand"
