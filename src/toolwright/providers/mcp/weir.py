"""Weir: holds back what would flood the library, which makes a task of each message. Loaded with a connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Self

from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from toolwright.providers.mcp.routes.escaped import escaped

MANY = 200
"""Messages that nobody asked for, within a second; what is more is left out."""
OPEN = 64
"""Requests of a server that wait for an answer."""
_CHANGES = ("notifications/tools/list_changed", "notifications/prompts/list_changed")
_ENVELOPE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class Weir:
    """In the place of what carries the messages: a server that says too much is heard in part, and answered still."""

    def __init__(self, carrier: Any, log: logging.Logger, changed: Callable[[], None], *, modern: bool) -> None:
        self._carrier, self._log, self._changed = carrier, log, changed
        self._version = "2026-07-28" if modern else "2025-11-25"
        self._asked: set[Any] = set()
        self._since = self._passed = self._left_out = 0.0

    async def __aenter__(self) -> tuple[Reading, Writing]:
        read, write = await self._carrier.__aenter__()
        return Reading(read, self), Writing(write, self)

    async def __aexit__(self, *error: Any) -> Any:
        return await self._carrier.__aexit__(*error)

    def passes(self, item: Any) -> bool:
        """Whether a message is handed on."""
        message = getattr(item, "message", None)
        if isinstance(message, JSONRPCNotification):
            return self._few() or self._noted(message)
        if isinstance(message, JSONRPCRequest):
            return self._may_ask(message)
        if isinstance(message, JSONRPCResponse):
            self._looked_at(message.result)
            if self._version >= "2026":  # a server may leave this out; the library wants to read it
                message.result.setdefault("resultType", "complete")
        return True

    def sent(self, item: Any) -> None:
        """A message of ours: perhaps the answer to one of the server's requests."""
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._asked.discard(item.message.id)

    def _few(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._since >= 1:
            if self._left_out:
                self._log.warning("%d messages that nobody asked for were left out.", self._left_out)
            self._since, self._passed, self._left_out = now, 0, 0
        self._passed += 1
        self._left_out += self._passed > MANY
        return self._passed <= MANY

    def _noted(self, message: JSONRPCNotification) -> bool:
        if message.method in _CHANGES:
            self._changed()
        return False

    def _may_ask(self, message: JSONRPCRequest) -> bool:
        if not self._few() or len(self._asked) >= OPEN:
            return False
        self._asked.add(message.id)
        return True

    # What a server says of its tools: one that is malformed costs the others nothing

    def _looked_at(self, result: dict[str, Any]) -> None:
        if isinstance(result.get("supportedVersions"), list):
            self._version = "2026-07-28"
        elif isinstance(tools := result.get("tools"), list):
            try:
                self._validate(tools)
            except ValidationError:
                result["tools"] = [tool for tool in map(_completed, tools) if self._is_sound(tool)]

    def _is_sound(self, tool: Any) -> bool:
        try:
            self._validate([tool])
        except ValidationError as error:
            name = tool.get("name") if isinstance(tool, dict) else tool
            place = ".".join(map(str, error.errors(include_url=False)[0]["loc"][2:]))
            self._log.warning(
                "The tool %s is left out: its %s is none.", escaped(str(name), 100), place or "definition"
            )
            return False
        return True

    def _validate(self, tools: list[Any]) -> None:
        validate_server_result("tools/list", self._version, {"tools": tools, **_ENVELOPE})


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
        return await self._stream.__aexit__(*error)


class Writing:
    """The messages to the other side."""

    def __init__(self, stream: Any, weir: Weir) -> None:
        self._stream, self._weir = stream, weir

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def send(self, item: Any) -> None:
        """Send a message."""
        try:
            await self._stream.send(item)
        finally:
            self._weir.sent(item)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)
