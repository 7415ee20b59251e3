"""`openapi`: makes a provider of an OpenAPI document."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from math import inf
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from surehand.core.durations import parse_duration
from surehand.core.errors import DefinitionError, ToolError
from surehand.core.names import is_legal_name, sanitized_tool_name
from surehand.core.provider import OnConflict
from surehand.http.client import HttpClient
from surehand.http.settings import HttpOptions, HttpSettings
from surehand.http.target import parse_target
from surehand.providers.openapi.document import Document
from surehand.providers.openapi.document_limits import MAX_DOCUMENT_BYTES
from surehand.providers.openapi.load import load_file, load_mapping, load_text
from surehand.providers.openapi.options import SHOW_CHOICES, OpenApiOptions, Show
from surehand.providers.openapi.provider import DocumentSource, OpenApiProvider
from surehand.providers.openapi.selection import Patterns, Selection
from surehand.providers.openapi.servers import parse_base
from surehand.providers.openapi.trusted_hosts import parse_host_names

FETCH_TIMEOUT_SECONDS = 60.0
MAX_NAMESPACE_LENGTH = 40
_URL = re.compile(r"https?://", re.IGNORECASE)
_VERSION_WORD = re.compile(r"v?\d+(?:\.\d+)*\Z|openapi|swagger|api-docs|spec|index", re.IGNORECASE)


def openapi(
    document: str | PathLike[str] | Mapping[str, Any],
    *,
    namespace: str | None = None,
    include: Patterns | None = None,
    exclude: Patterns | None = None,
    methods: Patterns | None = None,
    server: str | Mapping[str, str] | None = None,
    auth: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | None = None,
    show: Show = "auto",
    queue: str | None = None,
    timeout: float | str | None = None,
    required: bool = False,
    on_conflict: OnConflict = "error",
    lock: str | PathLike[str] | None = None,
    frozen: bool = False,
    environment: Mapping[str, str] | None = None,
    http: HttpOptions | None = None,
    trusted_hosts: str | Iterable[str] = (),
) -> OpenApiProvider:
    """A provider with a tool for every operation of an OpenAPI document of version 2.0, 3.0, 3.1 or 3.2.

    Args:
        document: a path, a URL, or the document as a dictionary; JSON or YAML.
        namespace: the name before the names of the tools; made from the name of the document if left out.
        include: operations that are offered: methods, path globs, `tag:x` or operation ids; all if left out.
        exclude: operations that are not offered, in the same form.
        methods: the methods that are offered, of those that `include` and `exclude` leave; all if left out.
        server: the base address in place of every server of the document, or values for the variables of its servers.
        auth: secrets by the names of the document's security schemes.
        given: values of parameters and of fields of bodies that models do not see, or functions of the `Context` that
            return them.
        show: `all` shows models every operation, `search` shows tools to search, describe and call operations;
            `auto` does that above 40 operations.
        lock: the lock file; an operation that has changed since it was pinned is held back.
        frozen: whether the lock file is only compared with, and new operations are held back, too.
        environment: the environment variables that secrets may name; those of the process if left out.
        http: settings of the HTTP client.
        trusted_hosts: further hosts that a fetched document may send the values of `auth` and `given` to; that of its
            URL and that of `server` are trusted already.
    """
    options = OpenApiOptions(
        namespace=_validate_namespace(namespace) if namespace is not None else _default_namespace(document),
        selection=Selection.parse(include, exclude, methods),
        server=_validate_server(server) if isinstance(server, str) else "",
        server_variables={} if isinstance(server, str) else _text_values("server", server),
        auth=_mapping("auth", auth),
        given=_mapping("given", given),
        show=_validate_show(show),
        queue=queue,
        timeout=_parse_timeout(timeout),
        required=required,
        on_conflict=on_conflict,
        lock=None if lock is None else Path(lock),
        frozen=frozen,
        trusted_hosts=parse_host_names(trusted_hosts),
    )
    return OpenApiProvider(_document_source(document, http), options, http, environment)


def is_url(location: str) -> bool:
    """Whether a document is fetched, and not read from a file."""
    return _URL.match(location) is not None


def _document_source(document: Any, http: HttpOptions | None) -> DocumentSource:
    if isinstance(document, Mapping):
        mapping = document

        async def load_from_mapping() -> Document:
            return load_mapping(mapping)

        return load_from_mapping
    if not isinstance(document, (str, PathLike)):
        problem = f"A document must be a path, a URL or a dictionary, got {type(document).__name__}."
        raise DefinitionError(problem, fix="give one of them.")
    location = fspath(document)
    if is_url(location):
        return lambda: _fetch_document(location, http)

    async def load_from_file() -> Document:
        # In a thread: parsing a large document takes seconds.
        return await asyncio.to_thread(load_file, Path(location))

    return load_from_file


async def _fetch_document(url: str, http: HttpOptions | None) -> Document:
    """Fetch the document that a developer named; what it refers to is not fetched."""
    target = parse_target(url)
    settings = HttpSettings(
        endpoints=frozenset({(target.host, target.port)}), timeout=FETCH_TIMEOUT_SECONDS, max_bytes=MAX_DOCUMENT_BYTES
    )
    async with HttpClient(settings, **(http or {})) as client:
        response = await client.request("GET", url, headers={"Accept": "application/json, application/yaml, */*;q=0.5"})
    if not response.ok:
        raise ToolError(f"{target.host} answered {response.status} {response.reason} for the document.".strip())
    return await asyncio.to_thread(load_text, response.body, response.url, url)


def _default_namespace(document: Any) -> str:
    """A namespace from the title of a dictionary, or from the name of a file or host."""
    if isinstance(document, Mapping):
        info = document.get("info")
        words = str(info.get("title", "")) if isinstance(info, Mapping) else ""
    elif is_url(location := fspath(document)):
        words = urlsplit(location).hostname or ""
    else:
        path = Path(location)
        words = path.parent.name if _VERSION_WORD.match(path.stem) and path.parent.name else path.stem
    name = re.sub(r"_+", "_", sanitized_tool_name(words) or "api").strip("_-")[:MAX_NAMESPACE_LENGTH].strip("_-")
    return name.lower() or "api"


def _validate_namespace(namespace: str) -> str:
    if not is_legal_name(str(namespace)) or "__" in namespace:
        fix = "use letters, digits, `_` and `-`, and no `__`."
        raise DefinitionError(f"{namespace!r} is not a legal namespace.", fix=fix)
    if len(namespace) > MAX_NAMESPACE_LENGTH:
        problem = f"The namespace {namespace!r} has {len(namespace)} characters."
        raise DefinitionError(problem, fix=f"use at most {MAX_NAMESPACE_LENGTH}.")
    return namespace


def _validate_server(server: str) -> str:
    parse_base(server)
    return server


def _validate_show(show: Show) -> Show:
    if show not in SHOW_CHOICES:
        raise DefinitionError(f"show={show!r} cannot be used.", fix=f"use {', '.join(SHOW_CHOICES)}.")
    return show


def _mapping(name: str, value: Mapping[str, Any] | None) -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise DefinitionError(f"{name} must be a mapping, got {type(value).__name__}.", fix="give names and values.")
    return dict(value or {})


def _text_values(name: str, value: Mapping[str, str] | None) -> dict[str, str]:
    return {str(key): str(each) for key, each in _mapping(name, value).items()}


def _parse_timeout(timeout: float | str | None) -> float | None:
    if timeout is None:
        return None
    try:
        seconds = parse_duration(timeout)
    except ValueError as error:
        raise DefinitionError(str(error), fix="write 30, '30s' or 'off'.") from None
    return inf if seconds is None else seconds
