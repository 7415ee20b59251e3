"""Env: environment variables, those that are allowed and no others."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import Field

from surehand.builtin.secrecy import is_dangerous_name, is_secret_name, is_secret_value
from surehand.core.define import tool
from surehand.core.errors import DefinitionError, Denied, InvalidArguments
from surehand.core.tool import Tool

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_VARIABLE_GLOB = re.compile(r"[A-Za-z0-9_*?\[\]!-]+\Z")
_MAX_VALUE_LENGTH = 30_000


def env(allow: str | Iterable[str], *, environment: MutableMapping[str, str] | None = None) -> list[Tool[..., Any]]:
    """Tools that read and set environment variables of this process.

    Args:
        allow: names, or globs such as `APP_*`. What looks like a secret is refused whatever is listed.
        environment: where they are read and set; this process's own if none is given.
    """
    allowed = AllowedVariables.parse(allow)
    variables = os.environ if environment is None else environment

    @tool(category="system", effects={"read"}, visible=False, toolsets="all_task_tools")
    async def get_env(
        key: Annotated[str, Field(description="Name of an allowed variable.", max_length=200)],
    ) -> dict[str, str | None]:
        """Read an environment variable that the developer allowed; null if it is not set. Never secrets."""
        allowed.check_read(key)
        return {"key": key, "value": _readable_value(key, variables.get(key))}

    @tool(category="system", effects={"write"}, repeatable=True, visible=False, toolsets="all_task_tools")
    async def set_env(
        key: Annotated[str, Field(description="Name of an allowed variable.", max_length=200)],
        value: Annotated[str, Field(description="Its new value.", max_length=_MAX_VALUE_LENGTH)],
    ) -> dict[str, str | None]:
        """Set an allowed environment variable for this process and those it starts later; gives the old value."""
        allowed.check_write(key)
        _check_new_value(key, value)
        previous = _readable_value(key, variables.get(key))
        variables[key] = value
        return {"key": key, "previous": previous, "current": value}

    return [get_env, set_env]


@dataclass(frozen=True, slots=True)
class AllowedVariables:
    """The names that may be read and set."""

    names: frozenset[str]
    globs: tuple[str, ...]

    @classmethod
    def parse(cls, names_and_globs: str | Iterable[str]) -> AllowedVariables:
        """From names and globs; raises `DefinitionError` for what must not, or can never, be allowed."""
        names = [names_and_globs] if isinstance(names_and_globs, str) else list(names_and_globs)
        for name in names:
            _validate_allowed_name(name)
        exact = frozenset(name for name in names if _VARIABLE_NAME.match(name))
        return cls(exact, tuple(name for name in names if name not in exact))

    def check_read(self, name: str) -> None:
        """The same refusal whether or not such a variable exists."""
        listed = name in self.names or any(fnmatchcase(name, glob) for glob in self.globs)
        if not listed or not _VARIABLE_NAME.match(name) or is_secret_name(name):
            offered = ", ".join(sorted((*self.names, *self.globs))[:20]) or "none"
            raise Denied(f"Permission denied: {name[:80]!r} is not among the variables allowed here: {offered}.")

    def check_write(self, name: str) -> None:
        """Beside that, a glob lets nobody change how programs run."""
        self.check_read(name)
        if name not in self.names and is_dangerous_name(name):
            raise Denied(f"Permission denied: {name} changes how programs run, and may only be read here.")


def _validate_allowed_name(name: object) -> None:
    if not isinstance(name, str) or not _VARIABLE_GLOB.match(name):
        raise DefinitionError(f"{name!r} names no variable.", fix="give names such as 'APP_MODE' or globs: 'APP_*'.")
    if _VARIABLE_NAME.match(name) and is_secret_name(name):
        raise DefinitionError(
            f"{name} looks like a secret, and a model would see it.",
            fix="leave it out; give secrets to the tool that needs them, in code.",
        )


def _check_new_value(name: str, value: str) -> None:
    if "\0" in value:
        raise InvalidArguments(f"The value for {name} holds a NUL character, which no variable can. Leave it out.")
    if is_secret_value(value):
        raise Denied(f"Permission denied: the value for {name} looks like a secret, and is not put where others read.")


def _readable_value(name: str, value: str | None) -> str | None:
    if value is None:
        return None
    if is_secret_value(value):
        raise Denied(f"Permission denied: the value of {name} looks like a secret, and is not shown.")
    return os.fsencode(value).decode(errors="replace")  # a variable may hold bytes that are no text
