"""The search tools: `glob` and `glob_files` find files by name, `grep` and `grep_files` by content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from surehand.builtin.limited_field import limited_field
from surehand.builtin.path_arguments import ToolNaming, path_tool_options, tools_by_naming
from surehand.builtin.search.grep import ContentQuery, SearchReport, check_search, search_content
from surehand.builtin.search.newest_files import find_newest_files
from surehand.builtin.search.results import ResultFormat
from surehand.builtin.search.search_scope import build_search_scope
from surehand.core.content import Text
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.outcome import Done
from surehand.core.sanitize import escape_line
from surehand.core.tool import Tool
from surehand.workspace.workspace import Workspace

MAX_FILES = 500
DEFAULT_FILES = 100
MAX_MATCHES = 200
DEFAULT_MATCHES = 50
MAX_CONTEXT_LINES = 10

SearchDirectory: TypeAlias = Annotated[str, Field(description="Folder to look in.")]
SearchPath: TypeAlias = Annotated[str, Field(description="File or folder to search.")]
GlobArgument: TypeAlias = Annotated[
    str, limited_field(min_length=1, max_length=1000, description="Such as '*.py' or 'src/**/*.{ts,tsx}'.")
]
SearchRegex: TypeAlias = Annotated[
    str, limited_field(min_length=1, max_length=10_000, description="Regular expression (no look-around).")
]
LiteralSwitch: TypeAlias = Annotated[bool, Field(description="Take the pattern as plain text.")]
ContextLines: TypeAlias = Annotated[
    int, Field(ge=0, le=MAX_CONTEXT_LINES, description="Lines to show around each match.")
]


def search_tools(workspace: Workspace, naming: ToolNaming = "short") -> list[Tool[..., Any]]:
    """`glob` and `grep`, or `glob_files` and `grep_files`, or all four."""
    return [*_glob_tools(workspace, naming), *_grep_tools(workspace, naming)]


def _glob_tools(workspace: Workspace, naming: ToolNaming) -> list[Tool[..., Any]]:

    def check(arguments: Mapping[str, Any], ctx: Context) -> None:
        build_search_scope(workspace, arguments.get("cwd") or arguments["path"], arguments["pattern"], lambda: False)

    @tool(**path_tool_options(workspace, "read", "path", check=check))
    def glob(
        pattern: GlobArgument,
        ctx: Context,
        path: SearchDirectory = ".",
        max_results: Annotated[int, Field(ge=1, description=f"Files to list, {MAX_FILES} at most.")] = DEFAULT_FILES,
    ) -> Done:
        """Find files by name, newest first. A pattern without a slash fits at any depth. Skips what git ignores."""
        found = _find_by_glob(workspace, path, pattern, min(max_results, MAX_FILES), ctx)
        files = found["files"]
        lines = [*files] or [f"No file fits '{escape_line(pattern, 200)}'."]
        if found["truncated"]:
            lines.append(f"\n({len(files):,} of {found['totalFiles']:,} files, the newest. Narrow the pattern.)")
        if found["leftOut"]:
            lines.append(f"\n({_left_out_note(found['leftOut'], 'listed')})")
        metadata = {"pattern": pattern, "fileCount": len(files), "truncated": found["truncated"]}
        title = f"Glob {escape_line(pattern, 80)}"
        return Done(files, content=[Text("\n".join(lines))], title=title, metadata=metadata)

    @tool(**path_tool_options(workspace, "read", "cwd", check=check))
    def glob_files(
        pattern: GlobArgument,
        ctx: Context,
        cwd: SearchDirectory = ".",
        max_results: Annotated[int, Field(ge=1, description=f"Files to list, {MAX_FILES} at most.")] = DEFAULT_FILES,
    ) -> dict[str, Any]:
        """Find files by name, newest first. A pattern without a slash fits at any depth. Skips what git ignores."""
        return _find_by_glob(workspace, cwd, pattern, min(max_results, MAX_FILES), ctx)

    return tools_by_naming(naming, glob, glob_files)


def _find_by_glob(workspace: Workspace, path: str, pattern: str, limit: int, ctx: Context) -> dict[str, Any]:
    scope = build_search_scope(workspace, path, pattern, lambda: ctx.cancelled)
    newest = find_newest_files(scope, limit)
    files = [scope.resolve(tuple(file.split("/"))).display_path for file in newest.paths]
    return {
        "files": files,
        "totalFiles": newest.total,
        "truncated": newest.total > len(files),
        "leftOut": newest.skipped_sensitive,
    }


def _grep_tools(workspace: Workspace, naming: ToolNaming) -> list[Tool[..., Any]]:

    def check(arguments: Mapping[str, Any], ctx: Context) -> None:
        check_search(workspace, arguments["path"], arguments["include"] or "**/*")

    @tool(**path_tool_options(workspace, "read", "path", check=check))
    def grep(
        pattern: SearchRegex,
        ctx: Context,
        path: SearchPath = ".",
        include: Annotated[
            str, limited_field(min_length=1, max_length=1000, description="Only files that fit, such as '*.py'.")
        ] = "**/*",
        literal: LiteralSwitch = False,
        case_sensitive: Annotated[bool, Field(description="Whether upper and lower case differ.")] = True,
        max_matches: Annotated[
            int, Field(ge=1, description=f"Matches to show, {MAX_MATCHES} at most.")
        ] = DEFAULT_MATCHES,
        context: ContextLines = 0,
        output_mode: Annotated[
            Literal["content", "files", "count"], Field(description="Matching lines, file names, or matches per file.")
        ] = "content",
    ) -> Done:
        """Search files by regular expression. Skips hidden, git-ignored and binary files, and those over 50 MB."""
        result_format = ResultFormat(output_mode, min(max_matches, MAX_MATCHES), context)
        query = ContentQuery(pattern, path, include, literal, case_sensitive, False, result_format)
        report = search_content(workspace, query, lambda: ctx.cancelled)
        title = f"Grep {escape_line(pattern, 80)}"
        return Done(report.data(), content=[Text(_render_report(report))], title=title, metadata=report.metadata())

    @tool(**path_tool_options(workspace, "read", "path", check=check))
    def grep_files(
        pattern: SearchRegex,
        ctx: Context,
        path: SearchPath = ".",
        include: Annotated[
            str | None,
            limited_field(min_length=1, max_length=1000, description="Only files that fit, such as '*.{ts,tsx}'."),
        ] = None,
        max_results: Annotated[
            int, Field(ge=1, description=f"Matches to give, {MAX_MATCHES} at most.")
        ] = DEFAULT_MATCHES,
        literal: LiteralSwitch = False,
        case_insensitive: Annotated[bool, Field(description="Take upper and lower case as the same.")] = False,
        context_lines: ContextLines = 0,
        output_mode: Annotated[
            Literal["content", "files_with_matches", "count"],
            Field(description="Matching lines, file names, or matches per file."),
        ] = "content",
        multiline: Annotated[
            bool, Field(description="Let matches go on in the next lines; `.` fits line ends.")
        ] = False,
    ) -> dict[str, Any]:
        """Search files by regular expression. Skips hidden, git-ignored and binary files, and those over 50 MB."""
        mode: Literal["content", "files", "count"] = "files" if output_mode == "files_with_matches" else output_mode
        result_format = ResultFormat(mode, min(max_results, MAX_MATCHES), context_lines)
        query = ContentQuery(pattern, path, include or "**/*", literal, not case_insensitive, multiline, result_format)
        return search_content(workspace, query, lambda: ctx.cancelled).data()

    return tools_by_naming(naming, grep, grep_files)


def _render_report(report: SearchReport) -> str:
    notes = report.notes()
    if report.results.skipped_sensitive:
        notes.append(_left_out_note(report.results.skipped_sensitive, "searched"))
    return "\n".join([*report.render_lines(), *(f"\n({note})" for note in notes)])


def _left_out_note(count: int, verb: str) -> str:
    if count == 1:
        subject = f"1 file that looks like keys or credentials was not {verb}"
    else:
        subject = f"{count:,} files that look like keys or credentials were not {verb}"
    return f"{subject}. Name one as the path to ask for it."
