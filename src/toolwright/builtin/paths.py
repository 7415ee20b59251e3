"""Paths: what all tools have in common that are given a path in a workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field

from toolwright.builtin.shown import shown
from toolwright.core.errors import InvalidArguments, ToolError

if TYPE_CHECKING:
    from toolwright.builtin.workspace import Workspace
    from toolwright.core.context import Context
    from toolwright.core.options import Options

Names: TypeAlias = Literal["short", "long"]
"""Which of two names for the same work models are shown: `read` or `read_file`."""
FilePath: TypeAlias = Annotated[str, Field(description="Path of the file, from the workspace's root or absolute.")]
FolderPath: TypeAlias = Annotated[str, Field(description="The folder, from the workspace's root or absolute.")]


def facets(
    workspace: Workspace, effect: Literal["read", "write"], *paths: str, listed: bool = True, **more: Any
) -> Options:
    """The facets of a tool whose arguments of those names are paths."""
    shared: Options = {
        "category": "file",
        "effects": {effect},
        "visible": False,
        "listed": listed and (effect == "read" or workspace.writes),
        "toolsets": ("all_task_tools",),
        "confirm": _sensitive(workspace, paths),
        "confirm_message": _question(workspace, effect, paths),
    }
    shared.update(more)  # type: ignore[typeddict-item]  # further facets, by their names
    return shared


def refuse_late(ctx: Context) -> None:
    """Change nothing any more where nobody waits for it: the caller was told that it took too long."""
    if ctx.cancelled:
        raise ToolError("Nobody waits for this any more. Nothing was changed.", code="cancelled")


def refuse_folder(path: str) -> None:
    """A path that ends in a slash is a folder's."""
    if path.endswith("/"):
        raise InvalidArguments(f"'{shown(path, 200)}' ends in a slash, as folders do. Give the file's name, too.")


def _sensitive(workspace: Workspace, paths: Iterable[str]) -> Callable[[Mapping[str, Any], Context], bool]:
    return lambda arguments, ctx: any(workspace.is_sensitive(arguments[name]) for name in paths)


def _question(workspace: Workspace, effect: str, paths: tuple[str, ...]) -> Callable[[Mapping[str, Any], Context], str]:
    def question(arguments: Mapping[str, Any], ctx: Context) -> str:
        named = [arguments[name] for name in paths]
        doubtful = [path for path in named if workspace.is_sensitive(path)]
        why = ", which looks like keys or credentials" if doubtful else ""
        told = " and ".join(shown(path, 1000) for path in doubtful or named)
        return f"Allow to {'look at' if effect == 'read' else 'change'} {told}{why}?"

    return question
