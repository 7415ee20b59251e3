"""Login: signing in now, because a person asks for it, and not because a call needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from surehand.core.errors import Denied, NotFound, ToolError
from surehand.providers.mcp.addresses.address import Who, resolved
from surehand.providers.mcp.auth.kept import SignIn
from surehand.providers.mcp.auth.oauth import STEPS, OAuth

if TYPE_CHECKING:
    from surehand.providers.mcp.addresses.http import Http

_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "surehand", "version": "0"},
    },
}
_HEADERS = {"Accept": "application/json, text/event-stream"}
_SESSION = "Mcp-Session-Id"


async def log_in(auth: OAuth, server: Http, user: str | None) -> SignIn:
    """Sign a user in to a server; where that is so already, it is made sure of, and renewed if need be."""
    import httpx2

    who = Who(user)
    kept = auth.tokens.of(server.url, user)
    try:
        await _knock(auth, server, who)
    except httpx2.RequestError as error:
        if isinstance(error.__cause__, ToolError):
            raise error.__cause__ from None
        raise ToolError(f"{urlsplit(server.url).hostname} broke off ({type(error).__name__}). Try again.") from None
    signed_in = kept.read()
    if signed_in.access is None:
        raise NotFound(f"{server.label} does not ask anybody to sign in.")
    return signed_in


async def _knock(auth: OAuth, server: Http, who: Who) -> None:
    """Ask for something, so that the server asks who we are: in the newer way, and else in the older."""
    from surehand.http.transport import GuardedClient

    headers = {**await resolved(server.headers, who), **_HEADERS}
    signs = auth.asking().auth_for(who, server.url)
    kept = auth.tokens.of(server.url, who.user)
    async with GuardedClient(server.settings, auth=signs, headers=headers, max_redirects=STEPS) as client:
        for method, hello in (("POST", _HELLO), ("GET", None)):
            if (answer := await _heard(client, method, server.url, hello)) is not None:
                await client.delete(server.url, headers={_SESSION: answer})
            if kept.read().access is not None:
                return


async def _heard(client: Any, method: str, url: str, hello: Any) -> str | None:
    """The session that was opened, which nobody needs; what else is said does not matter."""
    async with client.stream(method, url, json=hello) as response:
        if response.status_code == 403:
            raise Denied(f"{response.request.url.host} does not let us in (403), whoever signs in.")
        found: str | None = response.headers.get(_SESSION)
        return found
