"""Searching files: by name (`glob`, `glob_files`) and by content (`grep`, `grep_files`)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from surehand.builtin.found import Want
from surehand.builtin.grep import Asked, Hits, grepped
from surehand.builtin.newest import newest
from surehand.builtin.paths import Names, facets
from surehand.builtin.scope import scope
from surehand.builtin.workspace import Workspace
from surehand.core.content import Text
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.outcome import Done
from surehand.core.sanitize import escape_line
from surehand.core.tool import Tool

MOST_FILES, FILES = 500, 100
MOST_MATCHES, MATCHES = 200, 50
MOST_CONTEXT = 10

Folder: TypeAlias = Annotated[str, Field(description="Folder to look in, from the workspace's root or absolute.")]
Place: TypeAlias = Annotated[str, Field(description="File or folder to search, from the workspace's root or absolute.")]
Pattern: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=1000, description="Such as '*.py' or 'src/**/*.{ts,tsx}'.")
]
Context_: TypeAlias = Annotated[int, Field(ge=0, le=MOST_CONTEXT, description="Lines to show around each match.")]


def search_tools(workspace: Workspace, names: Names = "short") -> list[Tool[..., Any]]:
    """`glob`, `glob_files`, `grep` and `grep_files`."""
    return [*_by_name(workspace, names), *_by_content(workspace, names)]


def _by_name(workspace: Workspace, names: Names) -> list[Tool[..., Any]]:
    example = {"pattern": "src/**/*.py"}

    @tool(**facets(workspace, "read", "path", listed=names == "short", examples=[example]))
    def glob(
        pattern: Pattern,
        ctx: Context,
        path: Folder = ".",
        max_results: Annotated[int, Field(ge=1, description=f"Files to list, {MOST_FILES} at most.")] = FILES,
    ) -> Done:
        """Find files by name, newest first: `*.py` anywhere, `src/*.py` only there. Skips hidden and ignored ones."""
        found = _globbed(workspace, path, pattern, min(max_results, MOST_FILES), ctx)
        lines = [*found["files"]] or [f"No file fits '{escape_line(pattern, 200)}'."]
        if found["truncated"]:
            lines.append(
                f"\n({len(found['files']):,} of {found['totalFiles']:,} files, the newest. Narrow the pattern.)"
            )
        lines += [f"\n({_left_out(found['leftOut'], 'listed')})"] if found["leftOut"] else []
        metadata = {"pattern": pattern, "fileCount": len(found["files"]), "truncated": found["truncated"]}
        return Done(
            found["files"],
            content=[Text("\n".join(lines))],
            title=f"Glob {escape_line(pattern, 80)}",
            metadata=metadata,
        )

    @tool(**facets(workspace, "read", "cwd", listed=names == "long", examples=[example]))
    def glob_files(
        pattern: Pattern,
        ctx: Context,
        cwd: Folder = ".",
        max_results: Annotated[int, Field(ge=1, description=f"Files to list, {MOST_FILES} at most.")] = FILES,
    ) -> dict[str, Any]:
        """Find files by name, newest first: `*.py` anywhere, `src/*.py` only there. Skips hidden and ignored ones."""
        return _globbed(workspace, cwd, pattern, min(max_results, MOST_FILES), ctx)

    return [glob, glob_files]


def _globbed(workspace: Workspace, path: str, pattern: str, most: int, ctx: Context) -> dict[str, Any]:
    where = scope(workspace, path, pattern, lambda: ctx.cancelled)
    found = newest(where, most)
    files = [where.spot(tuple(path.split("/"))).shown for path in found.paths]
    return {
        "files": files, "totalFiles": found.total, "truncated": found.total > len(files), "leftOut": found.left_out,
    }  # fmt: skip


def _by_content(workspace: Workspace, names: Names) -> list[Tool[..., Any]]:
    @tool(
        **facets(
            workspace, "read", "path", listed=names == "short", examples=[{"pattern": "def main(", "include": "*.py"}]
        )
    )
    def grep(
        pattern: Annotated[str, Field(min_length=1, max_length=10_000, description="Text to find, taken literally.")],
        ctx: Context,
        path: Place = ".",
        include: Annotated[
            str, Field(min_length=1, max_length=1000, description="Only files that fit, such as '*.py'.")
        ] = "**/*",
        regex: Annotated[bool, Field(description="Take the pattern as a regular expression (no look-around).")] = False,
        case_sensitive: Annotated[bool, Field(description="Whether upper and lower case differ.")] = True,
        max_matches: Annotated[int, Field(ge=1, description=f"Matches to show, {MOST_MATCHES} at most.")] = MATCHES,
        context: Context_ = 0,
        output_mode: Annotated[
            Literal["content", "files", "count"], Field(description="Matching lines, file names, or matches per file.")
        ] = "content",
    ) -> Done:
        """Find text in files: `file:line: text`. Skips hidden, git-ignored and binary files, and those over 50 MB."""
        want = Want(output_mode, min(max_matches, MOST_MATCHES), context)
        asked = Asked(pattern, path, include, regex, case_sensitive, False, want)
        hits = grepped(workspace, asked, lambda: ctx.cancelled)
        return Done(
            hits.data(), content=[Text(_told(hits))], title=f"Grep {escape_line(pattern, 80)}", metadata=hits.metadata()
        )

    @tool(
        **facets(
            workspace, "read", "path", listed=names == "long", examples=[{"pattern": r"def \w+\(", "include": "*.py"}]
        )
    )
    def grep_files(
        pattern: Annotated[
            str, Field(min_length=1, max_length=10_000, description="Regular expression (no look-around).")
        ],
        ctx: Context,
        path: Place = ".",
        include: Annotated[
            str | None, Field(min_length=1, max_length=1000, description="Only files that fit, such as '*.{ts,tsx}'.")
        ] = None,
        max_results: Annotated[int, Field(ge=1, description=f"Matches to give, {MOST_MATCHES} at most.")] = MATCHES,
        case_insensitive: Annotated[bool, Field(description="Take upper and lower case as the same.")] = False,
        context_lines: Context_ = 0,
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
        want = Want(mode, min(max_results, MOST_MATCHES), context_lines)
        asked = Asked(pattern, path, include or "**/*", True, not case_insensitive, multiline, want)
        return grepped(workspace, asked, lambda: ctx.cancelled).data()

    return [grep, grep_files]


def _told(hits: Hits) -> str:
    notes = [*hits.notes(), *([_left_out(hits.found.left_out, "searched")] if hits.found.left_out else [])]
    return "\n".join([*hits.lines(), *(f"\n({note})" for note in notes)])


def _left_out(number: int, done: str) -> str:
    what, was = ("1 file that looks", "was") if number == 1 else (f"{number:,} files that look", "were")
    return f"{what} like keys or credentials {was} not {done}. Name one as the path to ask for it."
