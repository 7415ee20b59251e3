"""A real authorization server and an MCP server that requires its tokens, both built with the MCP SDK."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import uvicorn
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import build_metadata, create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

SCOPES = ["tools", "admin"]


class OAuthServer:
    """Signs in the user `person`, and records the requests in `seen`."""

    def __init__(self) -> None:
        self.issuer = self.url = ""
        self.clients = dict[str, OAuthClientInformationFull]()
        self.codes = dict[str, AuthorizationCode]()
        self.access_tokens = dict[str, AccessToken]()
        self.refresh_tokens = dict[str, RefreshToken]()
        self.all_tokens = set[str]()
        self.reset()

    def reset(self) -> None:
        """Restore the state before a test."""
        for known in (self.clients, self.codes, self.access_tokens, self.refresh_tokens, self.all_tokens):
            known.clear()
        self.inside = 0
        self.person, self.lifetime, self.default_scopes = "ada", 3600, ["tools"]
        self.refuses = self.broken = self.says_iss = False
        self.seen = list[str]()
        """The requests so far: `registered`, `signed in ada`, `renewed ada`, `reused`."""
        self.metadata = dict[str, Any]()
        """False values for the metadata of the MCP server."""
        self.says = dict[str, Any]()
        """Further values for its own metadata."""
        self.refresh_seconds = 0.0
        """Seconds that a refresh takes."""
        self.refresh_is_held = False
        """Whether a refresh is running."""

    def expire(self) -> None:
        """Invalidate all access tokens."""
        self.access_tokens.clear()

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.seen.append("registered")
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if self.refuses:
            raise AuthorizeError("access_denied", "no")
        code = AuthorizationCode(
            code=secrets.token_hex(20),
            scopes=params.scopes or self.default_scopes,
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject=self.person,
        )
        self.codes[code.code] = code
        issuer = "https://other.test" if self.says_iss else None
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state, iss=issuer)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        del self.codes[authorization_code.code]
        self.seen.append(f"signed in {authorization_code.subject}")
        return self.tokens(authorization_code)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        if refresh_token in self.all_tokens and refresh_token not in self.refresh_tokens:
            self.seen.append("reused")
        return self.refresh_tokens.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        if self.refresh_tokens.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant")
        await asyncio.sleep(self.refresh_seconds)
        while self.refresh_is_held:  # noqa: ASYNC110 - another thread says so
            await asyncio.sleep(0.01)
        self.seen.append(f"renewed {refresh_token.subject}")
        return self.tokens(refresh_token)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access_tokens.get(token)

    async def verify_token(self, token: str) -> AccessToken | None:
        return self.access_tokens.get(token)

    async def revoke_token(self, token: Any) -> None:
        raise NotImplementedError

    def tokens(self, grant: Any) -> OAuthToken:
        access_tokens, refresh_tokens = f"access-{secrets.token_hex(16)}", f"refresh-{secrets.token_hex(16)}"
        same = {"client_id": grant.client_id, "scopes": grant.scopes, "subject": grant.subject}
        self.access_tokens[access_tokens] = AccessToken(token=access_tokens, resource=grant.resource, **same)
        self.refresh_tokens[refresh_tokens] = RefreshToken(token=refresh_tokens, resource=grant.resource, **same)
        self.all_tokens |= {access_tokens, refresh_tokens}
        return OAuthToken(
            access_token=access_tokens,
            refresh_token=refresh_tokens,
            expires_in=self.lifetime,
            scope=" ".join(grant.scopes),
        )

    async def exchange_identity_assertion(self, client: Any, params: Any) -> OAuthToken:
        self.seen.append(f"asserted {params.assertion} {params.resource}")
        subject = params.assertion.rpartition(" ")[2]
        grant = AccessToken(token="", client_id=client.client_id, scopes=SCOPES, subject=subject)
        return self.tokens(grant).model_copy(update={"refresh_token": None})

    def server_metadata(self) -> dict[str, Any]:
        """The metadata of the authorization server."""
        options = ClientRegistrationOptions(enabled=True, valid_scopes=SCOPES)
        found = build_metadata(AnyHttpUrl(self.issuer), None, options, RevocationOptions())
        said = found.model_dump(mode="json", exclude_none=True)
        return {**said, "scopes_supported": None, **self.says}

    def app(self) -> ASGIApp:
        options = ClientRegistrationOptions(enabled=True, valid_scopes=SCOPES, default_scopes=SCOPES)
        routes = create_auth_routes(
            self, AnyHttpUrl(self.issuer), client_registration_options=options, identity_assertion_enabled=True
        )
        return _TokenEndpoint(Starlette(routes=routes), self)

    def protected_app(self) -> ASGIApp:
        settings = AuthSettings(
            issuer_url=AnyHttpUrl(self.issuer),
            resource_server_url=AnyHttpUrl(self.url),
            required_scopes=["tools"],
            validate_token_resource=False,
        )
        served = MCPServer("guarded", auth=settings, token_verifier=self, log_level="ERROR")

        @served.tool()
        async def whoami() -> str:
            """Say who is signed in."""
            token = get_access_token()
            assert token is not None
            return str(token.subject)

        @served.tool()
        async def meet(others: int) -> str:
            """Wait until several calls are running."""
            self.inside += 1
            async with asyncio.timeout(20):
                while self.inside < others:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            return "met"

        return _StepUp(served.streamable_http_app(host="127.0.0.1", json_response=True), self)


class _TokenEndpoint:
    """The SDK's token endpoint, with the client credentials grant, which the SDK does not have."""

    def __init__(self, app: ASGIApp, authority: OAuthServer) -> None:
        self._app, self._authority = app, authority

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/.well-known/oauth-authorization-server":
            return await JSONResponse(self._authority.server_metadata())(scope, receive, send)
        if scope["type"] != "http" or scope["path"] != "/token":
            return await self._app(scope, receive, send)
        if self._authority.broken:
            return await JSONResponse({"error": "server_error"}, 503)(scope, receive, send)
        body = await _read_body(receive)
        request = Request(scope, _replay_body(body))
        form = await request.form()
        if form.get("grant_type") != "client_credentials":
            return await self._app(scope, _replay_body(body), send)
        if self._authority.refuses:
            return await JSONResponse({"error": "invalid_client", "secret": "s3cret"}, 401)(scope, receive, send)
        self._authority.seen.append(f"program {request.headers.get('authorization', '')} {form.get('scope')}")
        if "assertion" in str(form.get("client_assertion_type")):
            self._authority.seen.append("by key")
        grant = AccessToken(token="", client_id="program", scopes=SCOPES, subject="program")
        said = self._authority.tokens(grant).model_dump(exclude={"refresh_token"})
        return await JSONResponse(said)(scope, receive, send)


class _StepUp:
    """Requires another scope for one tool, and can serve false metadata."""

    def __init__(self, app: ASGIApp, authority: OAuthServer) -> None:
        self._app, self._authority = app, authority

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        if self._authority.metadata and "oauth-protected-resource" in scope["path"]:
            return await JSONResponse(self._authority.metadata)(scope, receive, send)
        body = await _read_body(receive)
        token = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        known = self._authority.access_tokens.get(token)
        if b'"name":"admin"' in body and known is not None and "admin" not in known.scopes:
            said = {"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="admin"'}
            return await JSONResponse({}, 403, said)(scope, receive, send)
        return await self._app(scope, _replay_body(body, receive), send)


async def _read_body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


def _replay_body(body: bytes, then: Receive | None = None) -> Receive:
    said = False

    async def receive() -> Any:
        nonlocal said
        if not said:
            said = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await then() if then is not None else {"type": "http.disconnect"}

    return receive


@contextmanager
def run_oauth_server() -> Iterator[OAuthServer]:
    """Run both servers in a thread of their own."""
    authority = OAuthServer()
    ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    authority.issuer, origin = (f"http://127.0.0.1:{port.getsockname()[1]}" for port in ports)
    authority.url = f"{origin}/mcp"
    servers = [
        uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", timeout_graceful_shutdown=1))
        for app in (authority.app(), authority.protected_app())
    ]

    async def serve() -> None:
        await asyncio.gather(*(server.serve([port]) for server, port in zip(servers, ports, strict=True)))

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        while not all(server.started for server in servers):
            time.sleep(0.01)
        yield authority
    finally:
        for server in servers:
            server.should_exit = True
        thread.join(5)


async def follow_redirects(url: str) -> str:
    """A person's browser: it follows redirects and returns the last page."""
    async with httpx2.AsyncClient(follow_redirects=True, trust_env=False, timeout=30) as client:
        return (await client.get(url)).text


def read_token_files(folder: Any) -> list[Any]:
    """The parsed files of a token folder."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
