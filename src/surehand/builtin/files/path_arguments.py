"""Paths: what all tools have in common that are given a path in a workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field

from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.sanitize import escape_line

if TYPE_CHECKING:
    from surehand.core.context import Context
    from surehand.core.tool_options import ToolOptions
    from surehand.workspace.workspace import Workspace

ToolNaming: TypeAlias = Literal["short", "long"]
"""Which of two names for the same work models are shown: `read` or `read_file`."""
ActionDescription: TypeAlias = Callable[[list[str], Mapping[str, Any]], str]
FilePath: TypeAlias = Annotated[str, Field(description="Path of the file, from the workspace's root or absolute.")]
DirectoryPath: TypeAlias = Annotated[str, Field(description="The folder, from the workspace's root or absolute.")]


def path_tool_options(
    workspace: Workspace,
    effect: Literal["read", "write"],
    *path_arguments: str,
    listed: bool = True,
    describe_action: ActionDescription | None = None,
    **more_options: Any,
) -> ToolOptions:
    """The facets of a tool whose arguments of those names are paths.

    Args:
        act: what a person is asked to allow, in words, from the arguments.
    """
    shared: ToolOptions = {
        "category": "file",
        "effects": {effect},
        "visible": False,
        "listed": listed and (effect == "read" or workspace.writes),
        "toolsets": ("all_task_tools",),
        "confirm": _confirm_if_sensitive(workspace, path_arguments),
        "confirm_message": _confirm_message(
            workspace,
            path_arguments,
            describe_action or _describe_read if effect == "read" else describe_action or _describe_write,
        ),
    }
    shared.update(more_options)  # type: ignore[typeddict-item]  # further facets, by their names
    return shared


def refuse_if_cancelled(ctx: Context) -> None:
    """Change nothing any more where nobody waits for it: the caller was told that it took too long."""
    if ctx.cancelled:
        raise ToolError("Nobody waits for this any more. Nothing was changed.", code="cancelled")


def refuse_directory_path(path: str) -> None:
    """A path that ends in a slash is a folder's."""
    if path.endswith("/"):
        raise InvalidArguments(f"'{escape_line(path, 200)}' ends in a slash, as folders do. Give the file's name, too.")


def _confirm_if_sensitive(
    workspace: Workspace, path_arguments: Iterable[str]
) -> Callable[[Mapping[str, Any], Context], Any]:
    """Each time: a standing approval of harmless calls does not cover one of these."""
    return lambda arguments, ctx: (
        any(workspace.is_sensitive(arguments[name]) for name in path_arguments) and "each time"
    )


def _describe_read(paths: list[str], arguments: Mapping[str, Any]) -> str:
    return f"look at {' and '.join(paths)}"


def _describe_write(paths: list[str], arguments: Mapping[str, Any]) -> str:
    return f"change {' and '.join(paths)}"


def _confirm_message(
    workspace: Workspace, path_arguments: tuple[str, ...], describe_action: ActionDescription
) -> Callable[[Mapping[str, Any], Context], str]:
    def question(arguments: Mapping[str, Any], ctx: Context) -> str:
        doubtful = [
            escape_line(arguments[name], 200) for name in path_arguments if workspace.is_sensitive(arguments[name])
        ]
        which = ", which looks" if len(path_arguments) == 1 else f": {' and '.join(doubtful)} looks"
        why = f"{which} like keys or credentials" if doubtful else ""
        return f"Allow to {describe_action([escape_line(arguments[name], 1000) for name in path_arguments], arguments)}{why}?"

    return question
