"""Login: signing in now, because a person asks for it, and not because a call needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from surehand.core.errors import Denied, NotFound, ToolError
from surehand.providers.mcp.addresses.address import ConnectionOwner, resolve_headers_or_env
from surehand.providers.mcp.auth.oauth import MAX_AUTH_STEPS, OAuth
from surehand.providers.mcp.auth.token_store import TokenRecord

if TYPE_CHECKING:
    from surehand.providers.mcp.addresses.http import HttpAddress

_INITIALIZE_REQUEST = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "surehand", "version": "0"},
    },
}
_ACCEPT_HEADERS = {"Accept": "application/json, text/event-stream"}
_SESSION_HEADER = "Mcp-Session-Id"


async def log_in(auth: OAuth, server: HttpAddress, user: str | None) -> TokenRecord:
    """Sign a user in to a server; where that is so already, it is made sure of, and renewed if need be."""
    import httpx2

    who = ConnectionOwner(user)
    kept = auth.tokens.file_for(server.url, user)
    try:
        await _request_challenge(auth, server, who)
    except httpx2.RequestError as error:
        if isinstance(error.__cause__, ToolError):
            raise error.__cause__ from None
        raise ToolError(f"{urlsplit(server.url).hostname} broke off ({type(error).__name__}). Try again.") from None
    signed_in = kept.read()
    if signed_in.access_token is None:
        raise NotFound(f"{server.label} does not ask anybody to sign in.")
    return signed_in


async def _request_challenge(auth: OAuth, server: HttpAddress, owner: ConnectionOwner) -> None:
    """Ask for something, so that the server asks who we are: in the newer way, and else in the older."""
    from surehand.http.transport import GuardedClient

    headers = {**await resolve_headers_or_env(server.headers, owner), **_ACCEPT_HEADERS}
    signs = auth.as_interactive().auth_for(owner, server.url)
    kept = auth.tokens.file_for(server.url, owner.user)
    async with GuardedClient(server.settings, auth=signs, headers=headers, max_redirects=MAX_AUTH_STEPS) as client:
        for method, hello in (("POST", _INITIALIZE_REQUEST), ("GET", None)):
            if (answer := await _send_probe(client, method, server.url, hello)) is not None:
                await client.delete(server.url, headers={_SESSION_HEADER: answer})
            if kept.read().access_token is not None:
                return


async def _send_probe(client: Any, method: str, url: str, body: Any) -> str | None:
    """The session that was opened, which nobody needs; what else is said does not matter."""
    async with client.stream(method, url, json=body) as response:
        if response.status_code == 403:
            raise Denied(f"{response.request.url.host} does not let us in (403), whoever signs in.")
        found: str | None = response.headers.get(_SESSION_HEADER)
        return found
