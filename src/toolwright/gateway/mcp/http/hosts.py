"""Hosts: which names this server answers to, and which pages may talk to it.

A page that an attacker serves can have its name point here. The name that it then asks for gives it away.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse

from toolwright.core.errors import DefinitionError
from toolwright.gateway.mcp.http.sessions import SESSION
from toolwright.gateway.mcp.seldom import Seldom

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
ANY = "*"
LONGEST = 100
"""Characters of a refused name that are told."""
HOST_REFUSED = "A request for the host %s was refused (421). hosts= names those of this server, or --allow-host."
ORIGIN_REFUSED = "A request from the origin %s was refused (403). origins= names those that may ask, or --allow-origin."
_READ = [SESSION, "WWW-Authenticate"]
"""Headers of answers that a client has to see."""
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?P<port>:\d{1,5})?")


class Hosts:
    """Lets requests for known hosts, from known origins, through to an app; browsers are told so, as they ask first."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str], origins: Iterable[str], methods: Iterable[str]) -> None:
        self._app, self._seldom = app, Seldom()
        self._for_pages = _for_pages(app, methods)
        self._hosts = LOOPBACK | {_checked(host, "hosts") for host in _listed(hosts, "hosts")}
        self._origins = frozenset(_checked(origin, "origins") for origin in _listed(origins, "origins"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it: 421 for a host that is not ours, 403 for an origin that may not ask."""
        hosts, origins = [], []
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value)
            elif name == b"origin":
                origins.append(value)
        if len(hosts) != 1 or not self._is_ours(hosts[0].decode("latin-1").lower()):
            self._seldom.warn("421", HOST_REFUSED, _quoted(hosts))
            await JSONResponse({"error": "This host is not served here."}, 421)(scope, receive, send)
        elif origins and not (len(origins) == 1 and self._may_ask(origins[0].decode("latin-1").lower())):
            self._seldom.warn("403", ORIGIN_REFUSED, _quoted(origins))
            await JSONResponse({"error": "This origin may not ask."}, 403)(scope, receive, send)
        else:
            await (self._for_pages if origins else self._app)(scope, receive, send)

    def _is_ours(self, host: str) -> bool:
        # Of a name without a port, any will do: behind a forwarded port ours is not the one that was asked for, and a
        # browser, which cannot be made to lie about it, gives itself away by the name.
        found = _HOST.fullmatch(host)
        return found is not None and bool({ANY, host, found["name"]} & self._hosts)

    def _may_ask(self, origin: str) -> bool:
        if {ANY, origin} & self._origins:
            return True
        scheme, _, host = origin.partition("://")
        found = _HOST.fullmatch(host)
        return scheme in ("http", "https") and found is not None and found["name"] in LOOPBACK


def _for_pages(app: ASGIApp, methods: Iterable[str]) -> ASGIApp:
    """An app that says to browsers that their page may send any header and read the answer. Whether it may is known."""
    return CORSMiddleware(
        app,
        allow_origin_regex=".*",
        allow_methods=[*methods],
        allow_headers=["*"],  # those with arguments of tools have any name
        allow_private_network=True,
        expose_headers=_READ,
    )


def _quoted(values: list[bytes]) -> str:
    """What a stranger sent, so that it can be read and does nothing else."""
    return ascii(b", ".join(values).decode("latin-1")[:LONGEST])


def _listed(given: Iterable[str], name: str) -> list[str]:
    if isinstance(given, str):
        raise DefinitionError(f"{name}={given!r} is one text.", fix=f"give a list: {name}=[{given!r}].")
    return list(given)


def _checked(given: str, name: str) -> str:
    text = given.lower()
    parts = urlsplit(text) if name == "origins" else None
    bare = text if parts is None else text.removeprefix(f"{parts.scheme}://")
    if text != ANY and not (_HOST.fullmatch(bare) and (parts is None or parts.scheme in ("http", "https"))):
        like = "https://example.org" if name == "origins" else "example.org or example.org:8443"
        raise DefinitionError(f"{name} has {given!r}, which is none.", fix=f"write it as {like}.")
    return text
