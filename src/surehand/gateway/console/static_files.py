"""ConsoleFiles: serves the page and scripts of the console, which hold no data and so need no token."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

STATIC_FOLDER = Path(__file__).parent / "static"
STATIC_PREFIX = "/console/"
PAGE_NAME = "index.html"
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
)
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file of the console."""

    content: bytes
    media_type: str
    etag: str


class ConsoleFiles:
    """Serves the console at `/` and its files under `/console/`, and passes all other requests on to an app."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._files = _read_files(STATIC_FOLDER)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a file, or pass the request on."""
        root_path = scope.get("root_path", "")
        path = scope["path"].removeprefix(root_path)
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
        elif path == "" and root_path:
            # The page has relative links, which a mounted app serves only below its own path.
            await RedirectResponse(f"{root_path}/")(scope, receive, send)
        elif path == "/" or path.startswith(STATIC_PREFIX):
            name = PAGE_NAME if path == "/" else path.removeprefix(STATIC_PREFIX)
            await self._file_response(name, HTTPConnection(scope))(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _file_response(self, name: str, request: HTTPConnection) -> Response:
        file = self._files.get(name)
        if file is None:
            return Response(status_code=404)
        # The names of the files stay the same when their content changes, so browsers ask each time.
        headers = {
            "ETag": file.etag,
            "Cache-Control": "no-cache",
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        }
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers={**headers, "Content-Type": file.media_type})


def _read_files(folder: Path) -> dict[str, StaticFile]:
    """All files of a folder, by their paths in it. Reading them once also rules out every path outside it."""
    files: dict[str, StaticFile] = {}
    for path in folder.rglob("*"):
        if path.suffix in _MEDIA_TYPES:
            content = path.read_bytes()
            etag = f'"{sha256(content).hexdigest()[:32]}"'
            files[path.relative_to(folder).as_posix()] = StaticFile(content, _MEDIA_TYPES[path.suffix], etag)
    return files
