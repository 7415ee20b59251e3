"""Whole: a command that does the same from any folder, for programs that start it by themselves."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from surehand.cli.options import RuntimeOptions
from surehand.config.address import hide_password
from surehand.config.config import find_config


def absolute_command(runtime_options: RuntimeOptions, verb: str, *words: str) -> list[str]:
    """The words of a command with the same options, every file among them with its whole path."""
    config = runtime_options.config_path or (None if runtime_options.tool_sources else find_config())
    sources = tuple(map(_absolute_source, runtime_options.tool_sources))
    made = replace(runtime_options, tool_sources=sources, config_path=str(Path(config).resolve()) if config else None)
    found = shlex.split(made.follow_up_command(verb, *words))
    if (
        runtime_options.store_override is not None
    ):  # which is a whole path, but is shown to people as seen from where they are
        found[found.index("--store") + 1] = hide_password(runtime_options.store_override)
    return [_current_program(), *found[1:]]


def _absolute_source(source: str) -> str:
    """A file with its whole path; a module is found by its name anywhere."""
    file, colon, wanted = (source, "", "") if source.endswith(".py") else source.rpartition(":")
    return f"{Path(file).resolve()}{colon}{wanted}" if file.endswith(".py") else source


def _current_program() -> str:
    """The running script, so that it is this installation that is started."""
    found = shutil.which(sys.argv[0])
    return os.path.abspath(found) if found and Path(found).stem == "surehand" else "surehand"
