"""Shared by all tools that take a path: parameter types, tool options with their approval question, and checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field

from surehand.builtin.call_check import CallCheck, check_in_thread
from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.sanitize import escape_line

if TYPE_CHECKING:
    from surehand.core.context import Context
    from surehand.core.tool import Tool
    from surehand.core.tool_options import ToolOptions
    from surehand.workspace.workspace import Workspace

ToolNaming: TypeAlias = Literal["short", "long", "both"]
"""Which of two tools for the same work there are: `read`, `read_file`, or both."""
ActionDescription: TypeAlias = Callable[[list[str], Mapping[str, Any]], str]
"""Describes a call for the approval question, from its paths and its arguments: `delete notes.md`."""
FilePath: TypeAlias = Annotated[str, Field(description="Relative to the workspace, or absolute.")]
DirectoryPath: TypeAlias = Annotated[str, Field(description="Relative to the workspace, or absolute.")]


def path_tool_options(
    workspace: Workspace,
    effect: Literal["read", "write"],
    *path_arguments: str,
    describe_action: ActionDescription | None = None,
    check: CallCheck | None = None,
    **more_options: Any,
) -> ToolOptions:
    """The options of a tool with path arguments of these names.

    Args:
        describe_action: says what a person is asked to allow; by default reading or changing the paths.
        check: runs in a thread before a person is asked; by default it requires that the paths exist.
    """

    def check_paths(arguments: Mapping[str, Any], ctx: Context) -> None:
        for name in path_arguments:
            workspace.resolve(arguments[name]).stat()

    default_description = _describe_read if effect == "read" else _describe_write
    options: ToolOptions = {
        "category": "file",
        "effects": {effect},
        "visible": False,
        "toolsets": ("all_task_tools",),
        "confirm": _confirm_if_sensitive(workspace, path_arguments),
        "confirm_message": _confirm_message(workspace, path_arguments, describe_action or default_description),
        "preview": check_in_thread(check or check_paths),
    }
    options.update(more_options)  # type: ignore[typeddict-item]  # its keys are known only to the callers
    return options


def tools_by_naming(naming: ToolNaming, short: Tool[..., Any], long: Tool[..., Any]) -> list[Tool[..., Any]]:
    """The tool with the short name, the one with the long name, or both; a policy rule on either name covers both."""
    pair = {
        "short": short.evolve(other_names=frozenset({long.name})),
        "long": long.evolve(other_names=frozenset({short.name})),
    }
    return [*pair.values()] if naming == "both" else [pair[naming]]


def refuse_if_cancelled(ctx: Context) -> None:
    """Raise before a change if the call was cancelled: its caller has already seen a failure."""
    if ctx.cancelled:
        raise ToolError("Nobody waits for this any more. Nothing was changed.", code="cancelled")


def refuse_directory_path(path: str) -> None:
    """Raise `InvalidArguments` for a path that ends in a slash."""
    if path.endswith("/"):
        raise InvalidArguments(f"'{escape_line(path, 200)}' ends in a slash, as folders do. Give the file's name, too.")


def _confirm_if_sensitive(
    workspace: Workspace, path_arguments: Iterable[str]
) -> Callable[[Mapping[str, Any], Context], Any]:
    """Ask about sensitive paths each time: an "always" for harmless calls must not cover them."""
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
    def message(arguments: Mapping[str, Any], ctx: Context) -> str:
        given = [arguments[name] for name in path_arguments]
        action = describe_action([escape_line(path, 1000) for path in given], arguments)
        sensitive = [escape_line(path, 200) for path in given if workspace.is_sensitive(path)]
        if not sensitive:
            return f"Allow to {action}?"
        subject = ", which looks" if len(given) == 1 else f": {' and '.join(sensitive)} looks"
        return f"Allow to {action}{subject} like keys or credentials?"

    return message
