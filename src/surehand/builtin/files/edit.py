"""Editing files: one exact replacement (`edit`), or several edits in one step (`edit_file`)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from surehand.builtin.files.diff import LineChange, changes_from_replacements, render_unified_diff
from surehand.builtin.files.edit_operations import MAX_EDITS, Edit, find_replacements, resolve_edits
from surehand.builtin.files.file_description import format_byte_count
from surehand.builtin.files.path_arguments import FilePath, ToolNaming, path_tool_options, refuse_if_cancelled
from surehand.builtin.files.text_document import MAX_EDITABLE_BYTES, TextDocument, TextReplacement
from surehand.core.content import Text
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.outcome import Done
from surehand.core.sanitize import escape_line
from surehand.core.tool import Tool
from surehand.workspace.os_errors import path_for_message
from surehand.workspace.path import WorkspacePath
from surehand.workspace.workspace import Workspace

_MAX_ATTEMPTS = 10
"""How often an edit is worked out anew because somebody else changed the file meanwhile."""
_MAX_LISTED_CHANGES = 200
"""Changes that `edit_file` lists."""
EditList: TypeAlias = Annotated[list[Edit], Field(max_length=MAX_EDITS)]
FindReplacements: TypeAlias = Callable[[str], list[TextReplacement]]
"""Where in a text which edits take place; raises `InvalidArguments`."""


@dataclass(frozen=True, slots=True)
class EditResult:
    """A file before and after."""

    path: WorkspacePath
    before: bytes
    after: bytes
    replacements: list[TextReplacement]
    original_text: str

    def render_diff(self, max_lines: int = 200) -> str:
        """What changes, as a diff."""
        return render_unified_diff(
            self.path.display_path,
            changes_from_replacements(self.original_text, self.replacements),
            max_lines=max_lines,
        )

    @property
    def metadata(self) -> dict[str, Any]:
        """What both tools tell of it."""
        sizes = {"originalSize": len(self.before), "newSize": len(self.after)}
        return {"path": self.path.display_path, "replacements": len(self.replacements), **sizes}


def edit_tools(workspace: Workspace, naming: ToolNaming) -> list[Tool[..., Any]]:
    """`edit` and `edit_file`."""
    look = _diff_preview(workspace, "file_path", _single_edit_resolver)
    example: dict[str, Any] = {"file_path": "src/main.py", "old_string": "x = 1", "new_string": "x = 2"}

    @tool(
        **path_tool_options(workspace, "write", "file_path", listed=naming == "short", preview=look, examples=[example])
    )
    def edit(
        file_path: FilePath,
        old_string: Annotated[str, Field(description="Text to replace, exactly as it stands in the file.")],
        new_string: Annotated[str, Field(description="Text to put in its place.")],
        ctx: Context,
        replace_all: Annotated[bool, Field(description="Every place, not the only one.")] = False,
    ) -> Done:
        """Replace text in a file. `old_string` must stand there exactly once, line breaks and indentation included."""
        edited = _apply_edits(
            workspace.resolve(file_path), _single_edit_resolver(old_string, new_string, replace_all), ctx
        )
        count = "1 replacement" if len(edited.replacements) == 1 else f"{len(edited.replacements):,} replacements"
        text = f"Edited {edited.path.display_path}: {count}.\n\n{edited.render_diff()}"
        return Done(text, title=f"Edited {edited.path.display_path}", metadata=edited.metadata)

    look = _diff_preview(workspace, "path", _edit_list_resolver)
    example = {"path": "src/main.py", "edits": [{"old": "x = 1", "new": "x = 2"}, {"old": "y = 1", "delete": True}]}

    @tool(**path_tool_options(workspace, "write", "path", listed=naming == "long", preview=look, examples=[example]))
    def edit_file(
        path: FilePath,
        ctx: Context,
        edits: Annotated[EditList | None, Field(description="All are meant in the file as it is now.")] = None,
        whitespace_tolerant: Annotated[bool, Field(description="Find `old` though its whitespace differs.")] = False,
        old_string: Annotated[str | None, Field(description="In place of `edits`: the only text to replace.")] = None,
        new_string: Annotated[str | None, Field(description="What to put in place of `old_string`.")] = None,
        replace_all: Annotated[bool, Field(description="Every place where `old_string` stands.")] = False,
    ) -> Done:
        """Replace, delete and insert text in a file, in one step: all edits are made, or none."""
        resolve = _edit_list_resolver(edits, whitespace_tolerant, old_string, new_string, replace_all)
        return _edit_file_outcome(_apply_edits(workspace.resolve(path), resolve, ctx))

    return [edit, edit_file]


def _edit_file_outcome(result: EditResult) -> Done:
    path, count = result.path.display_path, len(result.replacements)
    changes = [
        change
        for _, some in islice(changes_from_replacements(result.original_text, result.replacements), _MAX_LISTED_CHANGES)
        for change in some
    ]
    data = {
        "applied": count,
        "changes": [_change_counts(change) for change in changes[:_MAX_LISTED_CHANGES]],
        **result.metadata,
    }
    text = f"Edited {path} in {count:,} place{'' if count == 1 else 's'}.\n\n{result.render_diff()}"
    if not changes:
        text = f"{path} stays as it is: there was nothing to change."
    return Done(data, content=(Text(text),), title=f"Edited {path}", metadata=result.metadata)


def _change_counts(change: LineChange) -> dict[str, int]:
    return {"line": change.line_number, "removed": len(change.removed_lines), "added": len(change.added_lines)}


def _edit_list_resolver(
    edits: list[Edit] | None, whitespace_tolerant: bool, old_string: str | None, new_string: str | None,
    replace_all: bool,
) -> FindReplacements:  # fmt: skip
    if not edits and old_string is not None and new_string is not None:
        return _single_edit_resolver(old_string, new_string, replace_all)
    if not edits or old_string is not None or new_string is not None:
        raise InvalidArguments("Give either `edits`, or `old_string` and `new_string`.")
    return lambda text: resolve_edits(text, edits, whitespace_tolerant=whitespace_tolerant)


def _single_edit_resolver(old_string: str, new_string: str, replace_all: bool) -> FindReplacements:
    old, new = old_string.replace("\r\n", "\n"), new_string.replace("\r\n", "\n")
    if not old:
        raise InvalidArguments("old_string is empty. Give text that stands in the file, or write the file anew.")
    if old == new:
        raise InvalidArguments("old_string and new_string are the same: nothing would change.")
    return lambda text: find_replacements(text, old, new, replace_all=replace_all)


def _apply_edits(path: WorkspacePath, find_replacements: FindReplacements, ctx: Context) -> EditResult:
    """Read, change and replace under a lock; anew, if another process came between."""
    path.check_writable()
    path = path.resolve_links()
    for left in reversed(range(_MAX_ATTEMPTS)):
        with path.workspace.file_lock(path):
            made, before = _compute_edit(path, find_replacements)
            if made.before == made.after:
                return made
            refuse_if_cancelled(ctx)
            try:
                path.write_atomically(made.after, expected_stat=before)
            except ToolError as error:
                if error.code != "conflict" or not left:
                    raise
            else:
                return made
    raise AssertionError("the last try returns or raises")


def _compute_edit(path: WorkspacePath, find_replacements: FindReplacements) -> tuple[EditResult, os.stat_result]:
    with path.open_reader() as file:
        before = os.fstat(file.fileno())
        data = file.read(min(before.st_size, MAX_EDITABLE_BYTES) + 1)
    if len(data) > MAX_EDITABLE_BYTES:
        has = format_byte_count(max(before.st_size, len(data)))
        raise ToolError(
            f"{path_for_message(path)} has {has}; at most {format_byte_count(MAX_EDITABLE_BYTES)} can be edited.",
            code="too_large",
        )
    document = TextDocument.from_bytes(path, data)
    spans = find_replacements(document.text)
    return EditResult(path, data, document.apply(path, spans), spans, document.text), before


def _diff_preview(
    workspace: Workspace, path_argument: str, build_resolver: Callable[..., FindReplacements]
) -> Callable[[Mapping[str, Any], Context], Awaitable[dict[str, Any]]]:
    """What a person is shown before an edit is made."""

    def work(arguments: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(arguments)
        spot = workspace.resolve(given.pop(path_argument)).resolve_links()
        return {
            "filePath": spot.display_path,
            "patch": _compute_edit(spot, build_resolver(**given))[0].render_diff(2000),
        }

    async def preview(arguments: Mapping[str, Any], ctx: Context) -> dict[str, Any]:
        try:
            found = await asyncio.to_thread(work, arguments)
        except ToolError as error:  # the call itself will say the same
            found = {"filePath": escape_line(arguments[path_argument], 1000), "patch": "", "problem": str(error)}
        return {"type": "diff", **found, "isNewFile": False}

    return preview
