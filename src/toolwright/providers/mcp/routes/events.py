"""Events: the older way over HTTP, where answers come as events of one long stream, and messages are posted.

Imported when a connection is opened, and not before: the library takes a second to load.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.shared._httpx_utils import request_within_origin, stream_within_origin

from toolwright.core.errors import NotStarted
from toolwright.core.sanitize import clean_line
from toolwright.providers.mcp.routes.exchange import client_for
from toolwright.providers.mcp.routes.route import Ended, Who
from toolwright.providers.mcp.routes.trouble import CannotStart, Met
from toolwright.providers.mcp.routes.web import refused, trouble
from toolwright.providers.mcp.routes.wire import Reading, TooLarge, Wire, Writing

if TYPE_CHECKING:
    from toolwright.providers.mcp.routes.web import Http

_JSON = {"Content-Type": "application/json"}


class Posted:
    """A connection in the older way: what the library's `Client` enters and leaves."""

    def __init__(self, route: Http, who: Who, ended: Ended) -> None:
        self._route, self._who, self._ended = route, who, ended
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> tuple[Reading, Writing]:
        route = self._route
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(await client_for(route, self._who))
            response = await stack.enter_async_context(_stream(client, route.url, route.settings.connect_timeout))
            events = Events(client, response, route.max_frame)
            await events.meet()
            self._wire = Wire(events, log=route.log, ended=self._ended)
            self._stack = stack.pop_all()
        return Reading(self._wire), Writing(self._wire)

    async def __aexit__(self, *error: Any) -> bool | None:
        self._wire.leave()
        return await self._stack.__aexit__(*error)


def _stream(client: httpx2.AsyncClient, url: str, patience: float) -> Any:
    """A stream that may be quiet for as long as it likes."""
    headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
    return stream_within_origin(client, "GET", url, headers=headers, timeout=httpx2.Timeout(patience, read=None))


class Events:
    """The stream, and the address that messages are posted to, which is the first thing that comes."""

    def __init__(self, client: httpx2.AsyncClient, response: httpx2.Response, max_frame: int) -> None:
        self._client, self._response = client, response
        self._events: AsyncIterator[Any] = aiter(httpx2.EventSource(response, max_event_size=max_frame))
        self._reason = "The server ended the stream of its answers."
        self._max_frame = max_frame
        self._endpoint = ""

    async def meet(self) -> None:
        """Learn where messages are posted to."""
        here = self._response.url
        if self._response.status_code != 200:
            self._response.raise_for_status()
            raise CannotStart(f"{here.host} leads elsewhere, which is not followed. Is the URL right?")
        async for event in self._events:
            if event.event == "endpoint":
                there = here.join(event.data)
                if (there.scheme, there.host, there.port) != (here.scheme, here.host, here.port):
                    raise CannotStart(
                        f"{here.host} wants messages to be sent to {clean_line(there.host)}, which is another server."
                    )
                self._endpoint = str(there)
                return
        raise NotStarted(f"{here.host} ended the stream before it had begun.")

    async def take(self) -> list[str]:
        """The message of the next event."""
        try:
            async for event in self._events:
                if event.event == "message" and event.data:
                    return [event.data]
        except httpx2.SSEError as error:
            raise TooLarge(
                f"The server sent a message of more than {self._max_frame} bytes, which is not read."
            ) from error
        except httpx2.RequestError as error:
            self._reason = trouble(error).message
        return []

    async def put(self, frame: str) -> None:
        """Post one message; the server says that it has it, and answers on the stream."""
        try:
            response = await request_within_origin(self._client, "POST", self._endpoint, content=frame, headers=_JSON)
        except httpx2.RequestError as error:
            raise Met(trouble(error)) from error
        if response.status_code >= 300:
            raise Met(refused(response.url.host, response.status_code, session=True))

    async def last_words(self) -> str:
        """Why the stream has ended."""
        return self._reason
