"""The factory `memory`: tools with which a model reads and writes Markdown files to remember what it learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Annotated, Any

from surehand.builtin.call_check import check_in_thread
from surehand.builtin.limited_field import limited_field
from surehand.builtin.memory_folder import SUMMARY_PREFIX, MemoryFolders, set_summary
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, NotFound
from surehand.core.tool import Tool

MemoryPath = Annotated[
    str, limited_field(description="Path of the Markdown file, such as facts/people.md.", max_length=400)
]
_MAX_TEXT_LENGTH = 500_000


def memory(folder: str | PathLike[str]) -> list[Tool[..., Any]]:
    """Tools that read and write Markdown files in a folder, which is created if it is missing.

    Each user has files of their own, in a subfolder. Files directly in the folder belong to calls without a user.

    Args:
        folder: where the files are; `scope(memory_dir=...)` sets another folder for the calls of a scope.
    """
    folders = MemoryFolders(folder)

    def verify(was_applied: Callable[[str, dict[str, Any]], bool | None]) -> Callable[[dict[str, Any], Context], Any]:
        """A function that finds out from the text of a file whether a call had changed it."""
        return lambda args, ctx: folders.of_call(ctx).verify_change(args["path"], lambda text: was_applied(text, args))

    def check_read(args: Mapping[str, Any], ctx: Context) -> None:
        folders.of_call(ctx).read(args["path"])

    def check_path(args: Mapping[str, Any], ctx: Context) -> None:
        folders.of_call(ctx).resolve_path(args["path"])

    def check_patch(args: Mapping[str, Any], ctx: Context) -> None:
        text = folders.of_call(ctx).read(args["path"])
        _apply_patch(args["path"], text, args["old_str"], args["new_str"])

    @tool(category="memory", effects={"read"}, visible=False, toolsets=("all_task_tools", "main_agent_tools"))
    def memory_list(ctx: Context) -> list[dict[str, Any]]:
        """List the memory files. Look here before reading or writing one."""
        return folders.of_call(ctx).list_files(lambda: ctx.cancelled)

    @tool(category="memory", effects={"read"}, visible=False,
          toolsets=("all_task_tools", "main_agent_tools", "reflection_tools"),
          preview=check_in_thread(check_read))  # fmt: skip
    def memory_read(path: MemoryPath, ctx: Context) -> str:
        """Read a memory file, its Markdown text as it was written. memory_list shows which there are."""
        return folders.of_call(ctx).read(path)

    @tool(category="memory", effects={"write"}, visible=False, toolsets=("all_task_tools", "reflection_tools"),
          verify=verify(lambda text, args: text == args["content"]),
          preview=check_in_thread(check_path))  # fmt: skip
    def memory_write(
        path: MemoryPath,
        content: Annotated[
            str,
            limited_field(
                description="The whole text; a line '> Summary: ...' is shown in lists.", max_length=_MAX_TEXT_LENGTH
            ),
        ],
        ctx: Context,
    ) -> dict[str, Any]:
        """Write a memory file, replacing what it held. Begin with a heading and a line '> Summary: ...'."""
        return folders.of_call(ctx).write(path, content)

    @tool(category="memory", effects={"write"}, visible=False, toolsets=("all_task_tools", "reflection_tools"),
          verify=verify(lambda text, args: _was_patched(text, **args)),
          preview=check_in_thread(check_patch))  # fmt: skip
    def memory_patch(
        path: MemoryPath,
        old_str: Annotated[
            str, limited_field(description="Text that occurs exactly once.", min_length=1, max_length=_MAX_TEXT_LENGTH)
        ],
        new_str: Annotated[str, limited_field(description="What to put in its place.", max_length=_MAX_TEXT_LENGTH)],
        ctx: Context,
    ) -> dict[str, Any]:
        """Replace one passage of a memory file. The old text must occur exactly once, so quote enough of it."""
        return folders.of_call(ctx).edit(path, lambda text: _apply_patch(path, text, old_str, new_str))

    @tool(category="memory", effects={"write"}, visible=False, toolsets=("all_task_tools", "reflection_tools"),
          verify=verify(lambda text, args: _was_appended(text, args["entry"])),
          preview=check_in_thread(check_path))  # fmt: skip
    def memory_append(
        path: MemoryPath,
        entry: Annotated[
            str, limited_field(description="Markdown to add at the end.", min_length=1, max_length=_MAX_TEXT_LENGTH)
        ],
        ctx: Context,
        summary: Annotated[
            str | None, limited_field(description="New summary of the whole file, one line.", max_length=1_000)
        ] = None,
    ) -> dict[str, Any]:
        """Add an entry at the end of a memory file, made if it is missing, and renew its summary if given."""
        return folders.of_call(ctx).edit(path, lambda text: _append_entry(text or "", entry, summary))

    return [memory_list, memory_read, memory_write, memory_patch, memory_append]


def _apply_patch(path: str, text: str | None, old: str, new: str) -> str:
    if text is None:
        raise NotFound(path)
    start = text.find(old)
    if start < 0:
        raise InvalidArguments(f"String not found in {path}. Read the file, and copy the text exactly.")
    if text.find(old, start + 1) >= 0:
        raise InvalidArguments(f"String appears multiple times in {path}. Quote more of what is around it.")
    return text[:start] + new + text[start + len(old) :]


def _append_entry(text: str, entry: str, summary: str | None) -> str:
    if summary is not None:
        text = set_summary(text, summary)
    separator = "" if not text or text.endswith("\n") else "\n"
    last_line = text.rstrip().rpartition("\n")[2]
    if last_line.startswith(SUMMARY_PREFIX):
        separator += "\n"  # Markdown would read an entry on the next line as part of the quoted summary
    end = "" if entry.endswith("\n") else "\n"
    return f"{text}{separator}{entry}{end}"


def _was_patched(text: str, *, old_str: str, new_str: str, **_: Any) -> bool | None:
    """Whether a patch has been applied; None if the text could also be the original."""
    if text.count(old_str) == 1 and old_str not in new_str:
        return False
    return True if old_str not in text and new_str in text else None


def _was_appended(text: str, entry: str) -> bool | None:
    """Whether an entry has been appended; None if an older entry has the same text."""
    if text.rstrip("\n").endswith(entry.rstrip("\n")):
        return True
    return None if entry in text else False
