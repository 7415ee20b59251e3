"""Files that a call sends: a model names a file of the workspace, or an output that was stored under a handle."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import closing
from typing import Any

from surehand.core.context import Context
from surehand.core.errors import Denied, InvalidArguments, ToolError
from surehand.http.errors import mark_unsent
from surehand.providers.openapi.body import FileContent
from surehand.workspace.workspace import Workspace

MAX_FILE_BYTES = 64 * 1024 * 1024


async def read_files(arguments: dict[str, Any], names: Iterable[str], context: Context) -> dict[str, Any]:
    """The arguments, with the files that they name read. Raises `ToolError`: nothing has been sent then."""
    loaded = dict(arguments)
    try:
        for name in names:
            if name not in loaded:
                continue
            value = loaded[name]
            if isinstance(value, list):
                loaded[name] = [await _read_file(each, context) for each in value]
            elif value is not None:
                loaded[name] = await _read_file(value, context)
    except ToolError as error:
        raise mark_unsent(error)  # noqa: B904 - the same error, with its own cause
    return loaded


async def _read_file(reference: Any, context: Context) -> FileContent:
    if not isinstance(reference, str) or not reference:
        raise InvalidArguments("A file is named by its path in the workspace, or by the handle of a stored output.")
    if "/" not in reference and "." not in reference:
        artifact = await (await context.store()).artifacts.find(reference, context.user, context.session)
        if artifact is not None:
            return FileContent(f"{reference}.txt", artifact.text.encode("utf-8", "surrogatepass"))
    return await asyncio.to_thread(_read_workspace_file, reference, context.workspace)


def _read_workspace_file(reference: str, folder: str) -> FileContent:
    with closing(Workspace(folder, writes=False)) as workspace:
        path = workspace.resolve(reference)
        if path.is_sensitive:
            raise Denied(f"{path.display_path} looks like keys or credentials, and is not sent.")
        with path.open_reader() as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            problem = f"{path.display_path} is larger than {MAX_FILE_BYTES:,} bytes, and is not sent."
            raise ToolError(problem, code="too_large")
        return FileContent(path.name, content)
