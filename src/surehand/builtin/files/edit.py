"""The tools that edit a file: `edit` makes one exact replacement, `edit_file` several edits in one step."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from surehand.builtin.call_check import CallCheck
from surehand.builtin.file_description import format_byte_count
from surehand.builtin.files.diff import LineChange, changes_from_replacements, render_unified_diff
from surehand.builtin.files.edit_operations import MAX_EDITS, Edit, find_replacements, resolve_edits
from surehand.builtin.files.file_versions import ReadVersions
from surehand.builtin.files.text_document import MAX_EDITABLE_BYTES, TextDocument, TextReplacement
from surehand.builtin.limited_field import limited_field
from surehand.builtin.path_arguments import (
    FilePath,
    ToolNaming,
    path_tool_options,
    refuse_if_cancelled,
    tools_by_naming,
)
from surehand.core.content import Text
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.outcome import Done
from surehand.core.tool import Tool
from surehand.workspace.os_errors import path_for_message
from surehand.workspace.path import WorkspacePath
from surehand.workspace.workspace import Workspace

_MAX_ATTEMPTS = 10
"""Attempts for one edit while other processes keep changing the file."""
_MAX_LISTED_CHANGES = 200
"""Changes that `edit_file` lists."""
_MAX_PREVIEW_LINES = 2000
EditList: TypeAlias = Annotated[list[Edit], limited_field(max_length=MAX_EDITS)]
FindReplacements: TypeAlias = Callable[[str], list[TextReplacement]]
"""Finds the replacements in a text; raises `InvalidArguments`."""


@dataclass(frozen=True, slots=True)
class EditResult:
    """A file's content before and after an edit."""

    path: WorkspacePath
    before: bytes
    after: bytes
    replacements: list[TextReplacement]
    original_text: str

    def render_diff(self, max_lines: int = 200) -> str:
        """The edit as a unified diff."""
        sections = changes_from_replacements(self.original_text, self.replacements)
        return render_unified_diff(self.path.display_path, sections, max_lines=max_lines)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of both tools' outcomes."""
        return {
            "path": self.path.display_path,
            "replacements": len(self.replacements),
            "originalSize": len(self.before),
            "newSize": len(self.after),
        }


def edit_tools(workspace: Workspace, naming: ToolNaming, versions: ReadVersions) -> list[Tool[..., Any]]:
    """`edit`, or `edit_file`, or both."""
    single_check = _diff_check(workspace, "file_path", _single_edit_resolver, versions)
    single_options = path_tool_options(
        workspace,
        "write",
        "file_path",
        check=single_check,
    )

    @tool(**single_options)
    def edit(
        file_path: FilePath,
        old_string: Annotated[str, Field(description="Text to replace, exactly as it stands in the file.")],
        new_string: Annotated[str, Field(description="Text to put in its place.")],
        ctx: Context,
        replace_all: Annotated[bool, Field(description="Every place, not the only one.")] = False,
    ) -> Done:
        """Replace text in a file. `old_string` must stand there exactly once, line breaks and indentation included."""
        resolver = _single_edit_resolver(old_string, new_string, replace_all)
        result = _apply_edits(workspace.resolve(file_path), resolver, versions, ctx)
        path = result.path.display_path
        count = len(result.replacements)
        count_text = "1 replacement" if count == 1 else f"{count:,} replacements"
        text = f"Edited {path}: {count_text}.\n\n{result.render_diff()}"
        return Done(text, title=f"Edited {path}", metadata=result.metadata)

    list_check = _diff_check(workspace, "path", _edit_list_resolver, versions)
    list_example = {
        "path": "src/main.py",
        "edits": [{"old": "x = 1", "new": "x = 2"}, {"old": "y = 1", "delete": True}],
    }
    list_options = path_tool_options(workspace, "write", "path", check=list_check, examples=[list_example])

    @tool(**list_options)
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
        resolver = _edit_list_resolver(edits, whitespace_tolerant, old_string, new_string, replace_all)
        return _edit_file_outcome(_apply_edits(workspace.resolve(path), resolver, versions, ctx))

    return tools_by_naming(naming, edit, edit_file)


def _edit_file_outcome(result: EditResult) -> Done:
    path = result.path.display_path
    count = len(result.replacements)
    sections = islice(changes_from_replacements(result.original_text, result.replacements), _MAX_LISTED_CHANGES)
    changes = [change for _, section_changes in sections for change in section_changes]
    listed = [_change_counts(change) for change in changes[:_MAX_LISTED_CHANGES]]
    if changes:
        text = f"Edited {path} in {count:,} place{'' if count == 1 else 's'}.\n\n{result.render_diff()}"
    else:
        text = f"{path} stays as it is: there was nothing to change."
    data = {"applied": count, "changes": listed, **result.metadata}
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
    old = old_string.replace("\r\n", "\n")
    new = new_string.replace("\r\n", "\n")
    if not old:
        raise InvalidArguments("old_string is empty. Give text that stands in the file, or write the file anew.")
    if old == new:
        raise InvalidArguments("old_string and new_string are the same: nothing would change.")
    return lambda text: find_replacements(text, old, new, replace_all=replace_all)


def _apply_edits(
    path: WorkspacePath, find_replacements: FindReplacements, versions: ReadVersions, ctx: Context
) -> EditResult:
    """Read, edit and replace the file under its lock; start over if another process changed it meanwhile.

    Raises `conflict` if the file changed since this session read it.
    """
    path.check_writable()
    path = path.resolve_links()
    for attempts_left in reversed(range(_MAX_ATTEMPTS)):
        # The lock excludes other calls of this process; `expected_stat` notices other processes.
        with path.workspace.file_lock(path):
            versions.refuse_if_changed(path, ctx)
            result, file_stat = _compute_edit(path, find_replacements)
            if result.before == result.after:
                return result
            refuse_if_cancelled(ctx)
            try:
                path.write_atomically(result.after, expected_stat=file_stat)
            except ToolError as error:
                if error.code != "conflict" or not attempts_left:
                    raise
            else:
                versions.remember_own_change(path, result.after, ctx)
                return result
    raise AssertionError("the last attempt returns or raises")


def _compute_edit(path: WorkspacePath, find_replacements: FindReplacements) -> tuple[EditResult, os.stat_result]:
    """The edit's result, and the status of the file that it was computed from."""
    with path.open_reader() as file:
        file_stat = os.fstat(file.fileno())
        data = file.read(min(file_stat.st_size, MAX_EDITABLE_BYTES) + 1)
    if len(data) > MAX_EDITABLE_BYTES:
        size = format_byte_count(max(file_stat.st_size, len(data)))
        limit = format_byte_count(MAX_EDITABLE_BYTES)
        raise ToolError(f"{path_for_message(path)} has {size}; at most {limit} can be edited.", code="too_large")
    document = TextDocument.from_bytes(path, data)
    replacements = find_replacements(document.text)
    result = EditResult(path, data, document.apply(path, replacements), replacements, document.text)
    return result, file_stat


def _diff_check(
    workspace: Workspace, path_argument: str, build_resolver: Callable[..., FindReplacements], versions: ReadVersions
) -> CallCheck:
    """Refuses an edit that cannot be made, and shows a person any other before it is made: a unified diff."""

    def check(arguments: Mapping[str, Any], ctx: Context) -> dict[str, Any]:
        edit_arguments = dict(arguments)
        path = workspace.resolve(edit_arguments.pop(path_argument))
        path.check_writable()
        path = path.resolve_links()
        versions.refuse_if_changed(path, ctx)
        result, _ = _compute_edit(path, build_resolver(**edit_arguments))
        path.check_write()
        patch = result.render_diff(_MAX_PREVIEW_LINES)
        return {"type": "diff", "filePath": path.display_path, "patch": patch, "isNewFile": False}

    return check
