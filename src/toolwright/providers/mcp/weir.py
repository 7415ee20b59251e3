"""Weir: holds back what would flood the library, which makes a task of each message. Loaded with a connection."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import cache
from math import isfinite
from typing import Any, Self

from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    ProgressNotification,
    ProgressNotificationParams,
)
from mcp_types.methods import SERVER_RESULTS, parse_server_notification
from pydantic import TypeAdapter, ValidationError

from toolwright.core.explain import preview
from toolwright.core.sanitize import escape_line
from toolwright.providers.mcp.calls import Calls
from toolwright.providers.mcp.content import MOST_BLOCKS
from toolwright.providers.mcp.listed import MOST
from toolwright.providers.mcp.routes.bulk import bulky
from toolwright.providers.mcp.routes.trouble import tell

MANY = 200
"""Messages that nobody asked for, within a second, and as many signs of each call; what is more is left out."""
FAULTS = 20
"""Malformed tools of one list, each of which costs itself alone."""
OPEN = 64
"""Requests of a server that wait for an answer."""
_PROGRESS, _CANCELLED = "notifications/progress", "notifications/cancelled"
_CHANGES = ("notifications/tools/list_changed", "notifications/prompts/list_changed")
_ENVELOPE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class Weir:
    """In the place of what carries the messages: a server that says too much is heard in part, and answered still."""

    def __init__(self, carrier: Any, log: logging.Logger, changed: Callable[[], None], *, modern: bool) -> None:
        self._carrier, self._log, self._changed = carrier, log, changed
        self._version = "2026-07-28" if modern else "2025-11-25"
        self._asked: set[Any] = set()
        self._sent: set[Any] = set()
        """Requests of the library's own that wait for an answer."""
        self.calls: Calls | None = None
        """Of the connection, once there is one."""
        self._since, self._left_out = 0.0, 0
        self._passed: Counter[Any] = Counter()

    async def __aenter__(self) -> tuple[Reading, Writing]:
        read, write = await self._carrier.__aenter__()
        self.calls = Calls(write)
        if (answer_to := getattr(write, "answer_to", None)) is not None:
            answer_to(self.passes)
        if (straight_to := getattr(write, "straight_to", None)) is not None:
            straight_to(self.calls.told)
        return Reading(read, self), Writing(write, self)

    async def __aexit__(self, *error: Any) -> Any:
        return await self._carrier.__aexit__(*error)

    def passes(self, item: Any) -> bool:
        """Whether a message is handed on."""
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCNotification):
            return self._hears(message) if self._few(self._of(message)) else self._noted(message)
        if isinstance(message, JSONRPCRequest):
            return self._may_ask(message)
        if isinstance(message, JSONRPCError):
            return not self._is_ours(message)
        if isinstance(message, JSONRPCResponse):
            return self._may_be_read(item, message)
        return True

    def _may_be_read(self, item: Any, message: JSONRPCResponse) -> bool:
        if len(_list(message.result, "content")) > MOST_BLOCKS:
            item.message = _too_large(message)
            return not self._is_ours(item.message)
        self._looked_at(message.result)
        if self._version >= "2026":  # a server may leave this out; the library wants to read it
            message.result.setdefault("resultType", "complete")
        return not self._is_ours(message)

    def _is_ours(self, message: JSONRPCResponse | JSONRPCError) -> bool:
        self._sent.discard(message.id)
        return self.calls is not None and self.calls.answered(message)

    def ended(self) -> None:
        """Nothing more will be read."""
        if self.calls is not None:
            self.calls.close()
        if (unread := getattr(self._carrier, "unread", None)) is not None:
            unread()

    def sends(self, item: Any) -> None:
        """A message of the library's is about to be sent: perhaps a request, or the end of one."""
        if isinstance(item.message, JSONRPCRequest):
            self._sent.add(item.message.id)
        elif isinstance(item.message, JSONRPCNotification) and item.message.method == _CANCELLED:
            self._sent.discard((item.message.params or {}).get("requestId"))

    def sent(self, item: Any) -> None:
        """A message of ours: perhaps the answer to one of the server's requests."""
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._asked.discard(item.message.id)

    def _of(self, message: JSONRPCNotification) -> Any:
        """The call that it is a sign of, or None. Each is counted for itself, so that none drowns another."""
        token = (message.params or {}).get("progressToken") if message.method == _PROGRESS else None
        if not isinstance(token, int | str):
            return None
        return token if token in self._sent else self.calls and self.calls.number_of(token)

    def _few(self, whose: Any = None) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._since >= 1:
            if self._left_out:
                self._log.warning("%d messages that nobody asked for were left out.", self._left_out)
            self._since, self._left_out = now, 0
            self._passed.clear()
        self._passed[whose] += 1
        self._left_out += self._passed[whose] > MANY
        return self._passed[whose] <= MANY

    def _noted(self, message: JSONRPCNotification) -> bool:
        if message.method in _CHANGES:
            self._changed()
        return False

    def _hears(self, message: JSONRPCNotification) -> bool:
        if message.method == _CANCELLED and isinstance(asked := (message.params or {}).get("requestId"), int | str):
            self._asked.discard(asked)  # the library answers nothing that was taken back
        return self._is_readable(message)

    def _is_readable(self, message: JSONRPCNotification) -> bool:
        """The library writes a page to the log for each that is not; one of a kind unknown to it is let by."""
        try:
            read = parse_server_notification(message.method, self._version, message.params)
        except KeyError:
            return True
        except (ValueError, OverflowError):
            self._left_out += 1
            return False
        if not isinstance(read, ProgressNotification):
            return True
        return _is_finite(read.params) and not (self.calls is not None and self.calls.progressed(read.params))

    def _may_ask(self, message: JSONRPCRequest) -> bool:
        if not self._few() or len(self._asked) >= OPEN:
            return False
        self._asked.add(message.id)
        return True

    # What a server says of its tools: one that is malformed costs the others nothing

    def _looked_at(self, result: dict[str, Any]) -> None:
        if isinstance(result.get("supportedVersions"), list):
            self._version = "2026-07-28"
        for kind in ("tools", "prompts"):
            if (count := len(_list(result, kind))) > MOST:
                self._log.warning("%d %s at once; all but the first %d are left out.", count, kind, MOST)
                result[kind] = result[kind][:MOST]
        if (tools := _list(result, "tools")) and self._faults(tools):
            result["tools"] = self._sound([_completed(tool) for tool in tools])

    def _sound(self, tools: list[Any]) -> list[Any] | None:
        """Those that are as they should be; none at all where most are not, for then it is no list of tools."""
        faults = self._faults(tools)
        if len(faults) > FAULTS:
            self._log.warning("Of %d tools %d are none; none is taken.", len(tools), len(faults))
            return None
        for number, place in faults.items():
            self._log.warning("The tool %s is left out: its %s is none.", _named(tools[number]), place)
        return [tool for number, tool in enumerate(tools) if number not in faults]

    def _faults(self, tools: list[Any]) -> dict[int, str]:
        """Which of them are malformed, and where."""
        try:
            _listing(self._version).validate_python({"tools": tools, **_ENVELOPE}, by_name=False)
        except ValidationError as error:
            found = [
                each["loc"] for each in error.errors(include_url=False, include_context=False, include_input=False)
            ]
            return {int(loc[1]): _place(loc[2:]) for loc in reversed(found) if len(loc) > 1}
        return {}


@cache
def _listing(version: str) -> TypeAdapter[Any]:
    """What the library has a list of tools look like; it would write one, too, only to check it."""
    kind: Any = SERVER_RESULTS["tools/list", version]
    return TypeAdapter(kind)


def _named(tool: Any) -> str:
    name = tool.get("name") if isinstance(tool, dict) else tool
    return escape_line(name if isinstance(name, str) else preview(name), 100)


def _place(loc: tuple[int | str, ...]) -> str:
    return escape_line(".".join(map(str, loc)), 100) or "definition"


def _list(result: dict[str, Any], name: str) -> list[Any]:
    found = result.get(name)
    return found if isinstance(found, list) else []


def _is_finite(params: ProgressNotificationParams) -> bool:
    return isfinite(params.progress) and isfinite(params.total or 0)


def _too_large(message: JSONRPCResponse) -> JSONRPCError:
    met = bulky(f"more than {MOST_BLOCKS:,} blocks")
    error = ErrorData(code=INTERNAL_ERROR, message=met.message, data=tell(met))
    return JSONRPCError(jsonrpc="2.0", id=message.id, error=error)


def _completed(tool: Any) -> Any:
    """Many leave out that arguments are an object: they cannot be anything else."""
    schema = tool.get("inputSchema", {}) if isinstance(tool, dict) else None
    return {**tool, "inputSchema": {"type": "object", **schema}} if isinstance(schema, dict) else tool


class Reading:
    """The messages of the other side, as far as they pass."""

    def __init__(self, stream: Any, weir: Weir) -> None:
        self._stream, self._weir = stream, weir

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        """The next that passes."""
        while not self._weir.passes(item := await self._stream.receive()):
            pass
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        while not self._weir.passes(item := await anext(self._stream)):
            pass
        return item

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        self._weir.ended()
        return await self._stream.__aexit__(*error)


class Writing:
    """The messages to the other side."""

    def __init__(self, stream: Any, weir: Weir) -> None:
        self._stream, self._weir = stream, weir

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def send(self, item: Any) -> None:
        """Send a message."""
        self._weir.sends(item)
        try:
            await self._stream.send(item)
        finally:
            self._weir.sent(item)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)
