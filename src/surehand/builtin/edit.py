"""Editing files: one exact replacement (`edit`), or several edits in one step (`edit_file`)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from surehand.builtin.changes import Change, from_spans, patch
from surehand.builtin.document import MOST, Document, Span
from surehand.builtin.edits import MOST_EDITS, Edit, replacements, spans_of
from surehand.builtin.paths import FilePath, Names, facets, refuse_late
from surehand.builtin.sizes import size
from surehand.builtin.spot import Spot
from surehand.builtin.trouble import told
from surehand.builtin.workspace import Workspace
from surehand.core.content import Text
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, ToolError
from surehand.core.outcome import Done
from surehand.core.sanitize import escape_line
from surehand.core.tool import Tool

_TRIES = 10
"""How often an edit is worked out anew because somebody else changed the file meanwhile."""
_SHOWN = 200
"""Changes that `edit_file` lists."""
Edits: TypeAlias = Annotated[list[Edit], Field(max_length=MOST_EDITS)]
Resolve: TypeAlias = Callable[[str], list[Span]]
"""Where in a text which edits take place; raises `InvalidArguments`."""


@dataclass(frozen=True, slots=True)
class Edited:
    """A file before and after."""

    spot: Spot
    before: bytes
    after: bytes
    spans: list[Span]
    text: str

    def patch(self, most: int = 200) -> str:
        """What changes, as a diff."""
        return patch(self.spot.shown, from_spans(self.text, self.spans), most=most)

    @property
    def metadata(self) -> dict[str, Any]:
        """What both tools tell of it."""
        sizes = {"originalSize": len(self.before), "newSize": len(self.after)}
        return {"path": self.spot.shown, "replacements": len(self.spans), **sizes}


def edit_tools(workspace: Workspace, names: Names) -> list[Tool[..., Any]]:
    """`edit` and `edit_file`."""
    look = _preview(workspace, "file_path", _replacing)
    example: dict[str, Any] = {"file_path": "src/main.py", "old_string": "x = 1", "new_string": "x = 2"}

    @tool(**facets(workspace, "write", "file_path", listed=names == "short", preview=look, examples=[example]))
    def edit(
        file_path: FilePath,
        old_string: Annotated[str, Field(description="Text to replace, exactly as it stands in the file.")],
        new_string: Annotated[str, Field(description="Text to put in its place.")],
        ctx: Context,
        replace_all: Annotated[bool, Field(description="Every place, not the only one.")] = False,
    ) -> Done:
        """Replace text in a file. `old_string` must stand there exactly once, line breaks and indentation included."""
        edited = _edited(workspace.spot(file_path), _replacing(old_string, new_string, replace_all), ctx)
        count = "1 replacement" if len(edited.spans) == 1 else f"{len(edited.spans):,} replacements"
        text = f"Edited {edited.spot.shown}: {count}.\n\n{edited.patch()}"
        return Done(text, title=f"Edited {edited.spot.shown}", metadata=edited.metadata)

    look = _preview(workspace, "path", _several)
    example = {"path": "src/main.py", "edits": [{"old": "x = 1", "new": "x = 2"}, {"old": "y = 1", "delete": True}]}

    @tool(**facets(workspace, "write", "path", listed=names == "long", preview=look, examples=[example]))
    def edit_file(
        path: FilePath,
        ctx: Context,
        edits: Annotated[Edits | None, Field(description="All are meant in the file as it is now.")] = None,
        whitespace_tolerant: Annotated[bool, Field(description="Find `old` though its whitespace differs.")] = False,
        old_string: Annotated[str | None, Field(description="In place of `edits`: the only text to replace.")] = None,
        new_string: Annotated[str | None, Field(description="What to put in place of `old_string`.")] = None,
        replace_all: Annotated[bool, Field(description="Every place where `old_string` stands.")] = False,
    ) -> Done:
        """Replace, delete and insert text in a file, in one step: all edits are made, or none."""
        resolve = _several(edits, whitespace_tolerant, old_string, new_string, replace_all)
        return _told(_edited(workspace.spot(path), resolve, ctx))

    return [edit, edit_file]


def _told(edited: Edited) -> Done:
    path, count = edited.spot.shown, len(edited.spans)
    changes = [change for _, some in islice(from_spans(edited.text, edited.spans), _SHOWN) for change in some]
    data = {"applied": count, "changes": [_counted(change) for change in changes[:_SHOWN]], **edited.metadata}
    text = f"Edited {path} in {count:,} place{'' if count == 1 else 's'}.\n\n{edited.patch()}"
    if not changes:
        text = f"{path} stays as it is: there was nothing to change."
    return Done(data, content=(Text(text),), title=f"Edited {path}", metadata=edited.metadata)


def _counted(change: Change) -> dict[str, int]:
    return {"line": change.line, "removed": len(change.removed), "added": len(change.added)}


def _several(
    edits: list[Edit] | None, whitespace_tolerant: bool, old_string: str | None, new_string: str | None,
    replace_all: bool,
) -> Resolve:  # fmt: skip
    if not edits and old_string is not None and new_string is not None:
        return _replacing(old_string, new_string, replace_all)
    if not edits or old_string is not None or new_string is not None:
        raise InvalidArguments("Give either `edits`, or `old_string` and `new_string`.")
    return lambda text: spans_of(text, edits, tolerant=whitespace_tolerant)


def _replacing(old_string: str, new_string: str, replace_all: bool) -> Resolve:
    old, new = old_string.replace("\r\n", "\n"), new_string.replace("\r\n", "\n")
    if not old:
        raise InvalidArguments("old_string is empty. Give text that stands in the file, or write the file anew.")
    if old == new:
        raise InvalidArguments("old_string and new_string are the same: nothing would change.")
    return lambda text: replacements(text, old, new, every=replace_all)


def _edited(spot: Spot, resolve: Resolve, ctx: Context) -> Edited:
    """Read, change and replace under a lock; anew, if another process came between."""
    spot.check_writable()
    spot = spot.real()
    for left in reversed(range(_TRIES)):
        with spot.workspace.lock(spot):
            made, before = _worked_out(spot, resolve)
            if made.before == made.after:
                return made
            refuse_late(ctx)
            try:
                spot.replace(made.after, expected=before)
            except ToolError as error:
                if error.code != "conflict" or not left:
                    raise
            else:
                return made
    raise AssertionError("the last try returns or raises")


def _worked_out(spot: Spot, resolve: Resolve) -> tuple[Edited, os.stat_result]:
    with spot.reader() as file:
        before = os.fstat(file.fileno())
        data = file.read(min(before.st_size, MOST) + 1)
    if len(data) > MOST:
        has = size(max(before.st_size, len(data)))
        raise ToolError(f"{told(spot)} has {has}; at most {size(MOST)} can be edited.", code="too_large")
    document = Document.of(spot, data)
    spans = resolve(document.text)
    return Edited(spot, data, document.edited(spot, spans), spans, document.text), before


def _preview(
    workspace: Workspace, name: str, resolve: Callable[..., Resolve]
) -> Callable[[Mapping[str, Any], Context], Awaitable[dict[str, Any]]]:
    """What a person is shown before an edit is made."""

    def work(arguments: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(arguments)
        spot = workspace.spot(given.pop(name)).real()
        return {"filePath": spot.shown, "patch": _worked_out(spot, resolve(**given))[0].patch(2000)}

    async def preview(arguments: Mapping[str, Any], ctx: Context) -> dict[str, Any]:
        try:
            found = await asyncio.to_thread(work, arguments)
        except ToolError as error:  # the call itself will say the same
            found = {"filePath": escape_line(arguments[name], 1000), "patch": "", "problem": str(error)}
        return {"type": "diff", **found, "isNewFile": False}

    return preview
