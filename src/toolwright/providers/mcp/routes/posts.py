"""Posts: calls that are sent over connections of their own, and answered without a task.

Only what is plain is read here. Any other answer, and any failure, is handed to the library as what came of the request
when it was sent: so it means what it would have meant, and nothing is sent twice.

Imported when a connection is opened, and not before: the library takes a second to load.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import lru_cache
from typing import Any, cast

import httpx2
from anyio import BrokenResourceError, ClosedResourceError
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, ErrorData, JSONRPCError, JSONRPCResponse
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic_core import to_json

from toolwright.core.clock import Clock, Deadlines
from toolwright.http.headers import OURS
from toolwright.http.prompt import Prompt
from toolwright.http.replay import Outcome
from toolwright.http.settings import Settings
from toolwright.http.transport import GuardedTransport
from toolwright.providers.mcp.calls import METHOD, item_of
from toolwright.providers.mcp.routes.post import Post

MOST_IDLE = 16
"""Connections that are kept for the next call."""
_HEAD = 64 * 1024
_VERSION = "mcp-protocol-version"
_SESSION = b"mcp-session-id"
_NAME = re.compile(r"mcp-(?!session-id$)[!#$%&'*+\-.^_`|~0-9a-z]{1,256}", re.IGNORECASE)
_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?")
_LINE = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}: (?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?\r\n")
_KEPT = ("connection", "keep-alive")
_USUAL = 3
"""Headers that say no more than the protocol, the method and the tool: they come again. Others are of one call."""


class Posts:
    """The calls of one connection that are under way in this way, and the connections that they take."""

    def __init__(self, transport: GuardedTransport, url: str, settings: Settings, *, most: int, max_frame: int) -> None:
        self._transport, self._url, self._settings = transport, httpx2.URL(url), settings
        self._most = most
        self.max_bytes = max_frame + _HEAD
        self.patience = settings.read_timeout
        self.deadlines = Deadlines(Clock())
        self._before: bytes | None = None
        self._off = False
        self._posts: dict[int, Post] = {}
        self._handed: dict[int, Outcome] = {}
        self._idle: list[Prompt] = []
        self._lent: set[Prompt] = set()
        self._making = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._answered_with: Callable[[Any], object] = _unheard
        self._told: Callable[[int, dict[str, Any]], bool] = _untold
        self._hand_over: Callable[[Any], Awaitable[None]] = _nowhere

    def belong_to(self, answered: Callable[[Any], object], hand_over: Callable[[Any], Awaitable[None]]) -> None:
        """Say where answers go, and where requests go that the library has to look at."""
        self._answered_with, self._hand_over = answered, hand_over

    def straight_to(self, told: Callable[[int, dict[str, Any]], bool]) -> None:
        """Say who is told of results, and whether he takes them; others are told as messages."""
        self._told = told

    # What the library sends

    def learn(self, request: httpx2.Request) -> None:
        """Speak as the library does: with all that stands before the headers of a single message."""
        if request.url == self._url:
            lines = [b"%s: %s\r\n" % pair for pair in request.headers.raw if not _of_one_message(pair[0])]
            plain = all(map(_LINE.fullmatch, lines))
            self._before = b"POST %s HTTP/1.1\r\n%s" % (self._url.raw_path, b"".join(lines)) if plain else None

    def stop(self) -> None:
        """Send no more: the server leads elsewhere, or is left."""
        self._off = True

    def outcome_of(self, request: httpx2.Request) -> Outcome | None:
        """What came of a request that was sent already."""
        if not self._handed:
            return None
        message = json.loads(request.content)
        # A server may ask under the number of a call: the answer to that is none.
        return self._handed.pop(message.get("id"), None) if message.get("method") == METHOD else None

    # Calls

    def send(self, number: int, params: dict[str, Any], headers: dict[str, str]) -> bool:
        """Whether a call goes this way."""
        if self._off or self._before is None or self._answered_with is _unheard:
            return False
        if (data := self._written(number, params, headers)) is None:
            return False
        stream = self._fresh()
        if stream is None and self._making + len(self._lent) >= self._most:
            return False
        modern = headers[_VERSION] in MODERN_PROTOCOL_VERSIONS
        post = self._posts[number] = Post(self, (number, params, headers), data, modern)
        if stream is not None:
            post.start(stream)
        else:
            self._making += 1
            self._do(self._dial(post))
        return True

    def _written(self, number: int, params: dict[str, Any], headers: Mapping[str, str]) -> bytes | None:
        own = _lines(tuple(headers.items())) if _VERSION in headers else None
        if own is None:
            return None
        call = {"jsonrpc": "2.0", "id": number, "method": METHOD, "params": params}
        try:
            body = to_json(call, inf_nan_mode="null")
        except ValueError:  # the library tells what is wrong with it
            return None
        return b"%s%sContent-Length: %d\r\n\r\n%s" % (self._before, own, len(body), body)

    def cancel(self, number: Any) -> bool:
        """Whether the server knows, by this, that nobody waits for an answer any more."""
        post = self._posts.get(number)
        return post is not None and post.cancel()

    def over(self, post: Post) -> None:
        """It is read, or will be by others."""
        self._posts.pop(post.number, None)

    def tell(self, number: int, result: dict[str, Any]) -> None:
        """The answer to a call."""
        if not self._told(number, result):
            message = JSONRPCResponse.model_construct(jsonrpc="2.0", id=number, result=result)
            self._answered_with(SessionMessage(message))

    def hand_over(self, post: Post, outcome: Outcome) -> None:
        """Have the library find out what it means."""
        self.over(post)
        self._handed[post.number] = outcome
        self._do(self._handed_over(item_of(*post.call), post.number, outcome))

    async def _handed_over(self, item: SessionMessage, number: int, outcome: Outcome) -> None:
        try:
            await self._hand_over(item)
        except (BrokenResourceError, ClosedResourceError):
            self._handed.pop(number, None)
            outcome.drop()
            error = ErrorData(code=CONNECTION_CLOSED, message="Connection closed")
            self._answered_with(SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=error)))

    # Connections

    def _fresh(self) -> Prompt | None:
        while self._idle:
            stream = self._idle.pop()
            if stream.is_usable:
                self._lent.add(stream)
                return stream
            stream.abort()
        return None

    async def _dial(self, post: Post) -> None:
        try:
            stream = await self._transport.dial(self._url, self._settings.connect_timeout)
        except Exception as error:  # noqa: BLE001 - whoever waits is told by the library what it means
            if not post.is_cancelled:
                self.hand_over(post, Outcome.failed(error))
            return
        finally:
            self._making -= 1
        self._lent.add(cast(Prompt, stream))
        if post.is_cancelled:
            self.give_back(cast(Prompt, stream), True)
        else:
            post.start(cast(Prompt, stream))

    def give_back(self, stream: Prompt, keeps: bool) -> None:
        """A connection is free again, or of no more use."""
        if stream not in self._lent:
            return
        self._lent.discard(stream)
        stream.attend(None)
        if keeps and len(self._idle) < MOST_IDLE and stream.is_quiet:  # the kernel is asked before it is used
            self._idle.append(stream)
        else:
            stream.abort()

    def _do(self, work: Coroutine[Any, Any, None] | Awaitable[None]) -> None:
        task = asyncio.get_running_loop().create_task(cast(Any, work), name="mcp: a call")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Close every connection."""
        self._off = True
        for task in self._tasks:
            task.cancel()
        for post in list(self._posts.values()):
            post.drop()
        self.deadlines.close()
        for stream in [*self._idle, *self._lent]:
            stream.abort()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.sleep(0)


async def _nowhere(item: Any) -> None:
    """There is no library yet."""


def _unheard(item: Any) -> None:
    """Nobody wants answers yet."""


def _untold(number: int, result: dict[str, Any]) -> bool:
    """Nobody wants them but as messages."""
    return False


def _lines(headers: tuple[tuple[str, str], ...]) -> bytes | None:
    """Those of a single message, as they are sent; None if one of them is not plain."""
    return _known_lines(headers) if len(headers) <= _USUAL else _written_lines(headers)


def _written_lines(headers: tuple[tuple[str, str], ...]) -> bytes | None:
    if not all(_NAME.fullmatch(name) and _VALUE.fullmatch(value) for name, value in headers):
        return None
    return "".join([f"{name}: {value}\r\n" for name, value in headers]).encode()


_known_lines = lru_cache(maxsize=256)(_written_lines)


def _of_one_message(name: bytes) -> bool:
    """Whether a header is that of a single message: each brings its own."""
    name = name.lower()
    return name == b"content-length" or (name.startswith(b"mcp-") and name != _SESSION)


def may_go_straight(client: httpx2.AsyncClient, url: str) -> bool:
    """Whether nobody has a say in a request but the library, and in its headers only beside those of the protocol."""
    own = [(name.lower(), value) for name, value in client.headers.multi_items()]
    ours = any(name.startswith("mcp-") or name in OURS for name, value in own if (name, value) != _KEPT)
    return client.auth is None and not ours and not httpx2.URL(url).userinfo
