"""A client of the newer protocol that sends what it is told, and shows what comes back as it is."""

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
from tests.gateway.mcp.talking import NEW, SOON, wire

TASKS = "io.modelcontextprotocol/tasks"
FORM, BOTH = {"elicitation": {"form": {}}}, {"elicitation": {"form": {}, "url": {}}}
WITH_TASKS = {**FORM, "extensions": {TASKS: {}}}
YES, NO, AWAY = {"action": "accept", "content": {}}, {"action": "decline"}, {"action": "cancel"}


def accepted(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


class Bare:
    """Requests as JSON; what is told without being asked for is in `told`."""

    def __init__(self, write: Any, capabilities: dict[str, Any]) -> None:
        self._write, self.capabilities = write, capabilities
        self._numbers, self._open = count(1), dict[int, asyncio.Future[Any]]()
        self.told: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()

    async def begin(self, method: str, **params: Any) -> tuple[int, asyncio.Future[Any]]:
        number = next(self._numbers)
        meta = {
            "io.modelcontextprotocol/protocolVersion": NEW,
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
        return await asyncio.wait_for(answer, SOON)

    async def call(self, tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        return await self.ask("tools/call", name=tool, arguments=arguments or {}, **more)

    async def answer(self, question: dict[str, Any], tool: str, answers: Any, arguments: Any = None) -> dict[str, Any]:
        """The same call again, with the same answer to all that was asked, or answers by key."""
        given = answers if "action" not in answers else dict.fromkeys(question["inputRequests"], answers)
        return await self.call(tool, arguments, inputResponses=given, requestState=question["requestState"])

    async def cancel(self, number: int) -> None:
        params = {"requestId": number}
        note = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)
        await self._write.send(SessionMessage(note))

    async def news(self, method: str) -> dict[str, Any]:
        """The next notification, which is of that kind."""
        told, params = await asyncio.wait_for(self.told.get(), SOON)
        assert told == method
        return params

    async def task(self, task_id: str, *until: str) -> dict[str, Any]:
        """How a task stands, once it does so."""
        task: dict[str, Any] = {}

        async def stands_so() -> bool:
            task.clear()
            task.update(await self.ask("tasks/get", taskId=task_id))
            return task["status"] in until

        await eventually(stands_so)
        return task

    async def read(self, messages: Any) -> None:
        async for each in messages:
            message = each.message
            if isinstance(message, JSONRPCNotification):
                self.told.put_nowait((message.method, message.params or {}))
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
async def bare(served: Any, capabilities: dict[str, Any] = FORM, **options: Any) -> AsyncIterator[Bare]:
    """A client of a runtime, or of a server that was made of one."""
    server = gateway.mcp.server(served, **options) if isinstance(served, Runtime) else served
    async with wire(server) as (read, write):
        client = Bare(write, capabilities)
        reading = asyncio.create_task(client.read(read))
        try:
            yield client
        finally:
            reading.cancel()
            await asyncio.wait({reading})


async def eventually(true: Callable[[], Any]) -> None:
    """Wait for something that nobody is told of."""
    async with asyncio.timeout(SOON):
        while not (await found if isawaitable(found := true()) else found):  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.002)


def text_of(result: dict[str, Any]) -> str:
    [block] = result["content"]
    return block["text"]
