"""Post: one call that is sent over a connection of its own, and what comes of it.

Imported when a connection is opened, and not before: the library takes a second to load.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import from_json

from toolwright.http.answer import Answer, Unusual
from toolwright.http.prompt import Prompt
from toolwright.http.replay import Outcome
from toolwright.providers.mcp.routes import pieces
from toolwright.providers.mcp.routes.bulk import too_bulky

if TYPE_CHECKING:
    from toolwright.core.clock import Deadline
    from toolwright.providers.mcp.routes.posts import Posts

Call: TypeAlias = tuple[int, dict[str, Any], dict[str, str]]
"""Its number, its parameters and the headers of its own."""
_RESPONSE = frozenset({"jsonrpc", "id", "result"})
_IGNORED = (b":", b"id:", b"retry:")


class Post:
    """One call: what was sent, and what has come."""

    def __init__(self, posts: Posts, call: Call, data: bytes, modern: bool) -> None:
        self.call, self.number = call, call[0]
        self.is_cancelled = False
        self._posts, self._data, self._modern = posts, data, modern
        self._stream: Prompt | None = None
        self._answer = Answer(posts.max_bytes)
        self._told = False
        self._looked_at = 0
        self._timer: Deadline | None = None

    def start(self, stream: Prompt) -> None:
        """Send it."""
        self._stream = stream
        self._last = monotonic()
        self._wait(self._posts.patience, self._silent)
        stream.attend(self._heard)
        try:
            stream.put(self._data)
        except OSError:
            self._unusual()
        self._data = b""

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._posts.deadlines.start(seconds, then)

    def cancel(self) -> bool:
        """Closing its connection tells the server, or, in the older protocol, a message does."""
        if self._stream is not None and not self._modern:
            return False
        self.is_cancelled = True
        self.drop()
        return True

    def drop(self) -> None:
        """Nobody waits for it any more."""
        self._finish(False)

    def _finish(self, keeps: bool) -> None:
        self._posts.over(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._stream is not None:
            self._posts.give_back(self._stream, keeps)

    def _heard(self, data: bytes) -> None:
        assert self._stream is not None
        answer = self._answer
        try:
            if data:
                answer.feed(data)
            result = None if self._told else self._result()
            if not answer.is_whole and result is None and self._stream.over:
                raise Unusual
        except Unusual:
            self._unusual()
            return
        if answer.is_whole:
            self._finish(answer.keeps)
        else:
            self._go_on(result is not None)
        if result is not None:
            self._posts.tell(self.number, result)

    def _go_on(self, told: bool) -> None:
        """There is more to come: of a stream whose answer was told, only its end."""
        assert self._stream is not None
        self._last = monotonic()
        self._stream.confirm()
        if told:
            self._told = True
            self._wait(pieces.REST, self.drop)

    def _result(self) -> dict[str, Any] | None:
        """None as long as it has not come."""
        answer, text = self._answer, None
        if answer.kind == "events" and answer.pieces > self._looked_at:
            self._looked_at = answer.pieces
            text = _event(answer.body)
        elif answer.kind == "json" and answer.is_whole:
            text = answer.body
        if text is not None:
            return _result_of(text, self.number)
        if answer.is_whole:
            raise Unusual
        return None

    def _unusual(self) -> None:
        if self._told:
            self.drop()
            return
        assert self._stream is not None
        assert self._timer is not None
        self._timer.cancel()
        stream = self._stream
        stream.attend(None)
        done = partial(self._posts.give_back, stream)
        self._posts.hand_over(self, Outcome.begun(stream, self._answer.raw, done))

    def _silent(self) -> None:
        """Nothing has come for as long as there is patience."""
        left = self._last + self._posts.patience - monotonic()
        if left > 0.001:
            self._wait(left, self._silent)
            return
        self.drop()
        self._posts.hand_over(self, Outcome.late())


def _event(body: bytes) -> bytes | None:
    """The data of the first event, once it is there."""
    body = body.replace(b"\r\n", b"\n")
    if b"\r" in body:
        raise Unusual
    event, ended, _ = body.partition(b"\n\n")
    if not ended:
        return None
    data = []
    for line in event.split(b"\n"):
        if line.startswith(b"data:"):
            data.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif line not in (b"event: message", b"event:message") and not line.startswith(_IGNORED):
            raise Unusual
    return b"\n".join(data)


def _result_of(text: bytes, number: int) -> dict[str, Any]:
    """The result, where it is one, and that of this very call."""
    if too_bulky(text):
        raise Unusual
    try:
        message = from_json(text)
    except ValueError:
        raise Unusual from None
    if not isinstance(message, dict) or message.keys() != _RESPONSE or message["jsonrpc"] != "2.0":
        raise Unusual
    if type(message["id"]) is not int or message["id"] != number or not isinstance(message["result"], dict):
        raise Unusual
    return message["result"]
