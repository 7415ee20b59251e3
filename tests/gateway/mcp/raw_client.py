"""A client of the modern protocol that sends any request and returns the response unchanged."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from inspect import isawaitable
from itertools import count
from typing import Any

from mcp import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from surehand import Runtime, gateway
from tests.gateway.mcp.sdk_clients import MODERN, TIMEOUT_SECONDS, memory_transport

TASKS = "io.modelcontextprotocol/tasks"
FORMS, FORMS_AND_URLS = {"elicitation": {"form": {}}}, {"elicitation": {"form": {}, "url": {}}}
WITH_TASKS = {**FORMS, "extensions": {TASKS: {}}}
ACCEPT, DECLINE, CANCEL = {"action": "accept", "content": {}}, {"action": "decline"}, {"action": "cancel"}


def accepted(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


class RawClient:
    """Sends requests as JSON, and collects notifications in `notifications`."""

    def __init__(self, write: Any, capabilities: dict[str, Any]) -> None:
        self._write, self.capabilities = write, capabilities
        self._numbers, self._open = count(1), dict[int, asyncio.Future[Any]]()
        self.notifications: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()

    async def begin(self, method: str, **params: Any) -> tuple[int, asyncio.Future[Any]]:
        number = next(self._numbers)
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "bare", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
        }
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        request = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params={"_meta": meta, **params})
        await self._write.send(SessionMessage(request))
        return number, answer

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result; raises `MCPError` for an error."""
        _, answer = await self.begin(method, **params)
        return await asyncio.wait_for(answer, TIMEOUT_SECONDS)

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        return await self.ask("tools/call", name=tool, arguments=arguments or {}, **more)

    async def answer(self, question: dict[str, Any], tool: str, answers: Any, arguments: Any = None) -> dict[str, Any]:
        """Send the same call again, with one answer to all requests, or with answers by key."""
        given = answers if "action" not in answers else dict.fromkeys(question["inputRequests"], answers)
        return await self.call(tool, arguments, inputResponses=given, requestState=question["requestState"])

    async def cancel(self, number: int) -> None:
        params = {"requestId": number}
        note = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)
        await self._write.send(SessionMessage(note))

    async def next_notification(self, method: str) -> dict[str, Any]:
        """The next notification, which must have this method."""
        told, params = await asyncio.wait_for(self.notifications.get(), TIMEOUT_SECONDS)
        assert told == method
        return params

    async def task(self, task_id: str, *until: str) -> dict[str, Any]:
        """The task, once it has one of these statuses."""
        task: dict[str, Any] = {}

        async def has_status() -> bool:
            task.clear()
            task.update(await self.ask("tasks/get", taskId=task_id))
            return task["status"] in until

        await eventually(has_status)
        return task

    async def read(self, messages: Any) -> None:
        async for each in messages:
            message = each.message
            if isinstance(message, JSONRPCNotification):
                self.notifications.put_nowait((message.method, message.params or {}))
            elif isinstance(message, (JSONRPCResponse, JSONRPCError)):
                self._end(message)

    def _end(self, message: JSONRPCResponse | JSONRPCError) -> None:
        answer = self._open.pop(int(message.id))
        if answer.done():
            return
        if isinstance(message, JSONRPCError):
            error = message.error
            answer.set_exception(MCPError(code=error.code, message=error.message, data=error.data))
        else:
            answer.set_result(message.result)


@asynccontextmanager
async def raw_client(served: Any, capabilities: dict[str, Any] = FORMS, **options: Any) -> AsyncIterator[RawClient]:
    """A client of a runtime, or of a server."""
    server = gateway.mcp.server(served, **options) if isinstance(served, Runtime) else served
    async with memory_transport(server) as (read, write):
        client = RawClient(write, capabilities)
        reading = asyncio.create_task(client.read(read))
        try:
            yield client
        finally:
            reading.cancel()
            await asyncio.wait({reading})


async def eventually(true: Callable[[], Any]) -> None:
    """Wait for a condition that has no event."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not (await found if isawaitable(found := true()) else found):  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.002)


def text_of(result: dict[str, Any]) -> str:
    [block] = result["content"]
    return block["text"]
