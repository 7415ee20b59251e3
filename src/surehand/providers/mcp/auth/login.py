"""`log_in` signs a user in on request, for `surehand login` and for programs with a sign-in page of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from surehand.core.errors import Denied, NotFound, ToolError
from surehand.http.settings import MAX_AUTH_STEPS
from surehand.providers.mcp.auth.token_files import TokenFolder
from surehand.providers.mcp.auth.token_store import TokenRecord
from surehand.providers.mcp.connection_owner import ConnectionOwner, resolve_headers_or_env

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
_SESSION_ID_HEADER = "Mcp-Session-Id"


class BrowserAuth(Protocol):
    """The settings of a sign-in with a browser, as `mcp.oauth` returns them."""

    @property
    def tokens(self) -> TokenFolder:
        """Where the tokens are stored."""
        ...

    def as_interactive(self) -> Any:
        """A copy that may open a browser for any user."""


async def log_in(auth: BrowserAuth, server: HttpAddress, user: str | None) -> TokenRecord:
    """Sign a user in to a server; for a user who is signed in, check the tokens and refresh them if needed.

    Raises `NotFound` if the server requires no sign-in, and `Denied` if it refuses the user.
    """
    import httpx2  # heavy, and an extra

    try:
        await _request_challenge(auth, server, ConnectionOwner(user))
    except httpx2.RequestError as error:
        if isinstance(error.__cause__, ToolError):
            raise error.__cause__ from None
        raise ToolError(f"{urlsplit(server.url).hostname} broke off ({type(error).__name__}). Try again.") from None
    record = auth.tokens.file_for(server.url, user).read()
    if record.access_token is None:
        raise NotFound(f"{server.label} does not ask anybody to sign in.")
    return record


async def _request_challenge(auth: BrowserAuth, server: HttpAddress, owner: ConnectionOwner) -> None:
    """Send a request that the server answers with 401: a streamable HTTP one, then one of the older SSE transport."""
    from surehand.http.transport import GuardedClient  # loads httpx2

    headers = {**await resolve_headers_or_env(server.headers, owner), **_ACCEPT_HEADERS}
    request_auth = auth.as_interactive().auth_for(owner, server.url)
    store = auth.tokens.file_for(server.url, owner.user)
    async with GuardedClient(
        server.settings, auth=request_auth, headers=headers, max_redirects=MAX_AUTH_STEPS
    ) as client:
        for method, body in (("POST", _INITIALIZE_REQUEST), ("GET", None)):
            session_id = await _send_probe(client, method, server.url, body)
            if session_id is not None:
                await client.delete(server.url, headers={_SESSION_ID_HEADER: session_id})
            if store.read().access_token is not None:
                return


async def _send_probe(client: Any, method: str, url: str, body: Any) -> str | None:
    """Send one request and return the id of the session it opened, if any; the rest of the response is ignored."""
    async with client.stream(method, url, json=body) as response:
        if response.status_code == 403:
            raise Denied(f"{response.request.url.host} refuses every user (403).")
        session_id: str | None = response.headers.get(_SESSION_ID_HEADER)
        return session_id
