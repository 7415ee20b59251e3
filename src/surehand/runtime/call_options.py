"""Call options: checks the timeout, the priority and the context that a caller gives to a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

from surehand.core.call import Principal
from surehand.core.context import Context
from surehand.core.durations import parse_duration

CallerContext: TypeAlias = Context | Principal | Mapping[str, Any]
PRINCIPAL_FIELDS = ("agent", "session", "message", "task", "user", "space", "turn")


def parse_timeout(timeout: float | str | None) -> float | None:
    """A caller's time limit in seconds; raises `ValueError` or `TypeError` for what is no duration."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float, str)):
        raise TypeError(f"`timeout` must be a duration, not {type(timeout).__name__}. Write 30, '30s' or 'off'.")
    try:
        seconds = parse_duration(timeout)
    except ValueError as error:
        raise ValueError(f"`timeout`: {error} Write 30, '30s' or 'off'.") from None
    if seconds is not None and not seconds >= 0:  # a NaN, too
        raise ValueError(f"`timeout` must not be negative, got {timeout}.")
    return seconds


def validate_priority(priority: Any) -> int:
    """The priority; raises `TypeError` unless it is a whole number."""
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise TypeError(f"A priority is a whole number, not {type(priority).__name__}.")
    return priority


def principal_fields_of(context: object) -> dict[str, Any]:
    """The fields that a caller's context sets; raises `TypeError` for what is no context."""
    if isinstance(context, Context):
        context = context.principal
    if isinstance(context, Principal):
        fields = asdict(context)
    elif isinstance(context, Mapping):
        fields = dict(context)
    else:
        expected = ", ".join(PRINCIPAL_FIELDS)
        raise TypeError(f"`context` must be a Context or a mapping of {expected}, not {type(context).__name__}.")
    return {name: value for name, value in fields.items() if value is not None}


def validate_principal_fields(fields: Mapping[str, Any]) -> None:
    """Raise `TypeError` unless these are fields of a principal, with texts."""
    if unknown := fields.keys() - set(PRINCIPAL_FIELDS):
        raise TypeError(f"A scope has no {', '.join(sorted(unknown))}. It takes {', '.join(PRINCIPAL_FIELDS)}.")
    for name, value in fields.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"The {name} of a scope is a text, not {type(value).__name__}.")


def absolute_path(folder: str | PathLike[str]) -> str:
    """A folder independent of the working directory: a call may go on in another process."""
    return str(Path(fspath(folder)).expanduser().absolute())


def narrow_paths(
    paths: Iterable[str | PathLike[str]], outer: tuple[str, ...] | None, *, workspace: str
) -> tuple[str, ...]:
    """Folders as absolute paths, relative ones in the workspace; they must be inside those of the outer scope."""
    given = [paths] if isinstance(paths, (str, PathLike)) else list(paths)
    absolute = [Path(workspace, fspath(path)).expanduser().absolute() for path in given]
    for path in absolute:
        if outer is not None and not any(path.is_relative_to(each) for each in outer):
            raise ValueError(f"{path} is outside the allowed paths of this scope: {', '.join(outer)}.")
    return tuple(map(str, absolute))
