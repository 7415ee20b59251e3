"""Exchange: requests and answers over HTTP, of which none that fails takes the others with it.

Imported when a connection is opened, and not before: the library takes a second to load.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from contextvars import copy_context
from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Self

import httpx2
from anyio import BrokenResourceError, ClosedResourceError, WouldBlock
from mcp.client.streamable_http import streamable_http_client
from mcp_types import HEADER_MISMATCH, ErrorData, JSONRPCError, JSONRPCNotification, jsonrpc_message_adapter

from toolwright.http.transport import ANSWERED, GuardedClient, transport_of
from toolwright.providers.mcp.auth.oauth import STEPS
from toolwright.providers.mcp.prose import line
from toolwright.providers.mcp.routes.bulk import bulky, too_bulky
from toolwright.providers.mcp.routes.pieces import Pieces
from toolwright.providers.mcp.routes.posts import Posts, may_go_straight
from toolwright.providers.mcp.routes.route import Ended, Who, resolved
from toolwright.providers.mcp.routes.trouble import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MOST_WORDS,
    Trouble,
    tell,
    trouble_of,
)
from toolwright.providers.mcp.routes.web import promptly, refused, trouble

if TYPE_CHECKING:
    from toolwright.providers.mcp.routes.web import Http

PARTING = 2.0
"""Seconds to take leave of a server that keeps a session."""
_SESSION = "mcp-session-id"


async def client_for(route: Http, who: Who, *, spared: int = 0) -> httpx2.AsyncClient:
    """A guarded client with somebody's headers and login; `spared` connections are left for others."""
    headers = await resolved(route.headers, who)
    auth: Any = None if route.auth is None else route.auth.auth_for(who, route.url)
    if isawaitable(auth):
        auth = await auth
    settings = replace(route.settings, max_connections=route.settings.max_connections - spared)
    timeout = httpx2.Timeout(settings.read_timeout, connect=settings.connect_timeout, pool=settings.connect_timeout)
    most = max(settings.max_redirects, STEPS)  # each step of a sign-in counts as a redirect
    return GuardedClient(settings, headers=headers, auth=auth, timeout=timeout, max_redirects=most)


class Streamed:
    """A connection in the streamable way: what the library's `Client` enters and leaves."""

    def __init__(self, route: Http, who: Who, ended: Ended) -> None:
        self._route, self._who, self._ended = route, who, ended
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Any:
        async with AsyncExitStack() as stack:
            route = self._route
            spared = 0 if route.auth is not None else route.settings.max_connections // 2
            client = await stack.enter_async_context(await client_for(route, self._who, spared=spared))
            posts = self._posts(client, spared)
            if posts is not None:
                stack.push_async_callback(posts.close)
            self._exchange = Exchange(client, self._ended, posts)
            stack.push_async_callback(self._exchange.settle)
            options: Any = {"http_client": self._exchange, "max_sse_event_size": route.max_frame}
            read, write = await stack.enter_async_context(streamable_http_client(route.url, **options))
            self._stack = stack.pop_all()
        return read, Writing(write, posts)

    def _posts(self, client: httpx2.AsyncClient, most: int) -> Posts | None:
        """Calls go straight where nobody else has to see them: no login, and no connections of another kind."""
        route = self._route
        if not most or route.settings.dialer is not promptly or not may_go_straight(client, route.url):
            return None
        return Posts(transport_of(client), route.url, route.settings, most=most, max_frame=route.max_frame)

    def unread(self) -> None:
        """Nobody reads any more what comes."""
        self._exchange.unread = True

    async def __aexit__(self, *error: Any) -> bool | None:
        self._exchange.leave()
        return await self._stack.__aexit__(*error)


class Writing:
    """The library's stream of messages to the server, with a way to hand one over at once."""

    def __init__(self, stream: Any, posts: Posts | None = None) -> None:
        self._stream, self._posts = stream, posts

    def answer_to(self, answered: Callable[[Any], object]) -> None:
        """Say who is told of the answers that do not come through the library."""
        if self._posts is not None:
            self._posts.belong_to(answered, self._stream.send)

    def straight_to(self, told: Callable[[int, dict[str, Any]], bool]) -> None:
        """Say who is told of plain results the moment they come, and answers whether it takes one."""
        if self._posts is not None:
            self._posts.straight_to(told)

    def post_now(self, number: int, params: dict[str, Any], headers: dict[str, str] | None) -> bool:
        """Send a call past the library, if that can be done."""
        return self._posts is not None and self._posts.send(number, params, headers or {})

    def send_now(self, item: Any) -> bool:
        """Hand a message over if somebody waits for it."""
        try:
            self._stream._inner.send_nowait((copy_context(), item))
        except (AttributeError, WouldBlock, BrokenResourceError, ClosedResourceError):
            return False
        return True

    async def send(self, item: Any) -> None:
        """Hand a message over, unless it is said by closing a connection."""
        if self._posts is None or not self._posts.cancel(_cancelled(item.message)):
            await self._stream.send(item)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)


class Exchange:
    """In the place of the library's HTTP client: tells the library of each failure as the answer to one request.

    Otherwise an error of one request would end the connection and all that is under way on it.
    """

    def __init__(self, client: httpx2.AsyncClient, ended: Ended, posts: Posts | None = None) -> None:
        self._client, self._tell_ended, self._posts = client, ended, posts
        self._left = self.unread = False
        """Whether the end is ours; and whether nobody reads any more what comes."""
        self._beside: set[asyncio.Task[None]] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def leave(self) -> None:
        """From now on the end is ours, and nobody is told of it."""
        self._left = self.unread = True
        if self._posts is not None:
            self._posts.stop()

    async def _heard(self) -> None:
        """Hand on what came; if nobody reads it, wait to be cancelled: the library would log it as an error."""
        if self.unread:
            await asyncio.get_running_loop().create_future()

    def _do_beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="mcp: the rest of an answer")
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def settle(self) -> None:
        """Wait for no more ends of answers."""
        for task in self._beside:
            task.cancel()
        if self._beside:
            await asyncio.wait(self._beside)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request; what goes wrong with a message becomes its answer."""
        if request.method == "DELETE":
            return await self._part(request, options)
        if request.method == "GET" or request.headers.get("mcp-method") == "subscriptions/listen":
            request.extensions = {**request.extensions, "timeout": {**request.extensions["timeout"], "read": None}}
        if request.method == "GET":
            return await self._listen(request, options)
        try:
            response = await self._answer(request, await self._sent(request, options))
        except Exception as error:  # noqa: BLE001 - whatever it is, a login among it, it is this request's alone
            response = _instead(request, 503, CONNECTION_CLOSED, _meaning(error))
        if self.unread and _is_asked(request):
            await response.aclose()
            await self._heard()
        return response

    async def _part(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """Take leave; a server that is not there needs none, and the library would log that once more."""
        try:
            async with asyncio.timeout(PARTING):
                return await self._client.send(request, **options)
        except httpx2.TransportError as error:
            if trouble_of(error).sent:
                raise
            return httpx2.Response(204, request=request)

    async def _sent(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """What comes of a request; of one that was sent past the library, what came of it then."""
        if (posts := self._posts) is None:
            return await self._client.send(request, **options)
        posts.learn(request)
        outcome = posts.outcome_of(request)
        try:
            if outcome is not None:
                request.extensions = {**request.extensions, ANSWERED: outcome}
            response = await self._client.send(request, **options)
        finally:
            if outcome is not None:
                outcome.drop()
        if 300 <= response.status_code < 400:
            posts.stop()
        return response

    async def _listen(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """The stream of news; the library opens it again when it breaks off, and is silent when that fails."""
        try:
            response = await self._client.send(request, **options)
        except Exception as error:
            self._end(_meaning(error))
            raise
        if response.status_code >= 400:
            self._end(refused(request.url.host, response.status_code, session=_SESSION in request.headers))
        Pieces(response, self._heard)
        return response

    def _end(self, met: Trouble) -> None:
        if met.gone and not self._left:
            self._left = True
            self._tell_ended(met.message)

    async def _answer(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        is_json = response.headers.get("content-type", "").lower().startswith("application/json")
        try:
            if is_json:
                await response.aread()
            if is_json and too_bulky(response.content):
                return _instead(request, response.status_code, INTERNAL_ERROR, bulky())
            if response.status_code < 400:
                if not is_json:
                    Pieces(response, self._heard, self._do_beside)
                return response
            if is_json and not _lost(request, response) and (error := _error(response.content)) is not None:
                return response if error.code != HEADER_MISMATCH else _stale(request, response, error.message)
        except BaseException:
            await response.aclose()
            raise
        await response.aclose()
        return _instead(request, response.status_code, *_refusal(request, response))


def _cancelled(message: Any) -> Any:
    """The number of the call that nobody wants any more, where a message says that."""
    if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
        return (message.params or {}).get("requestId")
    return None


def _is_asked(request: httpx2.Request) -> bool:
    """Whether what is sent wants an answer, which the library would hand on."""
    message: dict[str, Any] = json.loads(request.content)
    return "id" in message and "method" in message


def _lost(request: httpx2.Request, response: httpx2.Response) -> bool:
    return response.status_code in (404, 410) and _SESSION in request.headers


def _refusal(request: httpx2.Request, response: httpx2.Response) -> tuple[int, Trouble]:
    met = refused(request.url.host, response.status_code, session=_SESSION in request.headers)
    if response.status_code == 404:
        return (INVALID_REQUEST if met.gone else METHOD_NOT_FOUND), met
    return INTERNAL_ERROR, met


def _error(body: bytes) -> ErrorData | None:
    try:
        message = jsonrpc_message_adapter.validate_json(body, by_name=False)
    except ValueError:
        return None
    return message.error if isinstance(message, JSONRPCError) else None


def _stale(request: httpx2.Request, response: httpx2.Response, message: str) -> httpx2.Response:
    """Only here does this mean anything: in no other way are there headers."""
    met = Trouble(False, False, line(message, MOST_WORDS), stale=True)
    return _instead(request, response.status_code, HEADER_MISMATCH, met)


def _meaning(error: Exception) -> Trouble:
    return trouble(error) if isinstance(error, httpx2.RequestError) else trouble_of(error)


def _instead(request: httpx2.Request, status: int, code: int, met: Trouble) -> httpx2.Response:
    """An answer of the protocol, in place of what cannot be told in it."""
    error = {"code": code, "message": met.message, "data": tell(met)}
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return httpx2.Response(max(status, 400), json=body, request=request)
