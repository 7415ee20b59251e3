"""Servers of a document: the base address of each operation, with the values of its variables.

The host is constant: a model never chooses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any
from urllib.parse import urljoin

from surehand.core.errors import DefinitionError, ToolError
from surehand.core.names import nearest_names
from surehand.http.target import MAX_URL_LENGTH, HttpTarget, parse_target
from surehand.providers.openapi.document import Document, UnusableOperation
from surehand.providers.openapi.operations import Operation

_VARIABLE = re.compile(r"\{([^{}]+)\}")
MAX_SERVERS = 100
"""Servers of a list that are looked at for one that can be used."""
_NO_SERVER = "The document names no server with a host."


class Servers:
    """The base addresses of a document's operations.

    Args:
        override: the address that a developer gave in place of all servers of the document; empty for none.
        variables: values for the variables of the servers, in place of their defaults.
    """

    def __init__(self, document: Document, override: str = "", variables: Mapping[str, str] | None = None) -> None:
        self._document = document
        self._variables = dict(variables or {})
        self._override = parse_base(override) if override else None
        self._main: HttpTarget | None = None
        self._targets: dict[str, HttpTarget] = {}

    def target_of(self, operation: Operation) -> HttpTarget:
        """The base address of an operation; its path has no slash at the end. Raises `UnusableOperation`."""
        if self._override is not None:
            return self._override
        for owner in (operation.definition, operation.path_item):
            servers = owner.get("servers")
            if isinstance(servers, list) and servers:
                return self._parse(self._server_url(servers))
        return self.main_target()

    def main_target(self) -> HttpTarget:
        """The base address of operations that name no server of their own."""
        if self._override is not None:
            return self._override
        if self._main is None:
            self._main = self._find_main_target()
        return self._main

    def check_variables(self, operations: Iterable[Operation]) -> None:
        """Raise `DefinitionError` for a given variable that no server has which requests are sent to."""
        if not self._variables:
            return
        owners = [self._document.root]
        for operation in operations:
            owners += (operation.path_item, operation.definition)
        known = {name for owner in owners for name in _VARIABLE.findall(_first_url(owner.get("servers")))}
        host = self._document.root.get("host")
        known |= set(_VARIABLE.findall(host)) if self._document.is_swagger and isinstance(host, str) else set()
        unknown = sorted(self._variables.keys() - known)
        if unknown:
            near = nearest_names(unknown[0], known, 1)
            names = f"use {', '.join(sorted(known)[:10])}." if known else "remove it, or give the whole address."
            raise DefinitionError(
                f"server has {unknown[0]!r}, which is no variable of the servers that requests are sent to.",
                fix=f"did you mean {near[0]!r}?" if near else names,
            )

    @property
    def has_main_target(self) -> bool:
        """Whether the document, or an option, names a server for all operations."""
        try:
            self.main_target()
        except UnusableOperation:
            return False
        return True

    def _find_main_target(self) -> HttpTarget:
        root = self._document.root
        if self._document.is_swagger:
            return self._parse(self._swagger_url(root))
        servers = root.get("servers")
        return self._parse(self._server_url(servers) if isinstance(servers, list) and servers else "/")

    def _server_url(self, servers: list[Any]) -> str:
        server = _first_server(servers)
        if server is None:
            raise UnusableOperation(_NO_SERVER)
        described = server.get("variables")
        variables = described if isinstance(described, dict) else {}

        def value_of(match: re.Match[str]) -> str:
            name = match[1]
            if name in self._variables:
                return str(self._variables[name])
            variable = variables.get(name)
            default = variable.get("default") if isinstance(variable, dict) else None
            if default is None:
                raise UnusableOperation(f"The server {server['url']} has a variable {name} without a default.")
            return str(default)

        return _VARIABLE.sub(value_of, server["url"])

    def _swagger_url(self, root: dict[str, Any]) -> str:
        base_path = root.get("basePath")
        path = base_path if isinstance(base_path, str) else ""
        host = root.get("host")
        if not isinstance(host, str) or not host:
            return path or "/"
        schemes = root.get("schemes")
        usable = [each for each in schemes if each in ("http", "https")] if isinstance(schemes, list) else []
        scheme = "https" if "https" in usable or not usable else usable[0]
        if not usable and self._document.url.startswith("http://"):
            scheme = "http"
        host = _VARIABLE.sub(lambda match: str(self._variables.get(match[1], match[0])), host)
        return f"{scheme}://{host}/{path.lstrip('/')}"

    def _parse(self, url: str) -> HttpTarget:
        if url not in self._targets:
            address = urljoin(self._document.url, url) if self._document.url else url
            if address.startswith("//"):
                address = f"https:{address}"
            if "://" not in address:
                raise UnusableOperation(_NO_SERVER)
            try:
                self._targets[url] = parse_base(address)
            except DefinitionError as error:
                raise UnusableOperation(error.problem) from None
        return self._targets[url]


def _first_server(servers: Any) -> dict[str, Any] | None:
    """The server that requests are sent to, of those in a list."""
    for each in islice(servers, MAX_SERVERS) if isinstance(servers, list) else ():
        if isinstance(each, dict) and isinstance(each.get("url"), str) and len(each["url"]) <= MAX_URL_LENGTH:
            return each
    return None


def _first_url(servers: Any) -> str:
    server = _first_server(servers)
    return "" if server is None else str(server["url"])


def parse_base(address: str) -> HttpTarget:
    """A base address, to which paths are appended. Raises `DefinitionError`."""
    try:
        target = parse_target(address.strip())
    except ToolError as error:
        fix = 'give an address such as "https://api.example.com/v1".'
        raise DefinitionError(f"The server {address!r:.200} cannot be used: {error}", fix=fix) from None
    path = target.path.partition("?")[0].rstrip("/")
    return HttpTarget(target.scheme, target.host, target.port, path)
