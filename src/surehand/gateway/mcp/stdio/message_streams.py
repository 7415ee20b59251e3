"""The message streams of one stdio connection, in both directions, and its shutdown after the input has ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from anyio import BrokenResourceError, ClosedResourceError, EndOfStream
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from surehand.core.clock import Clock, Timer, wake
from surehand.gateway.mcp.stdio.descriptors import DescriptorReader, DescriptorWriter
from surehand.gateway.mcp.stdio.limits import DEFAULT_LIMITS, StdioLimits
from surehand.gateway.mcp.stdio.request_queue import RequestQueue
from surehand.jsonrpc.codec import encode
from surehand.jsonrpc.line_splitter import LineSplitter
from surehand.jsonrpc.streams import MessageReadStream, MessageWriteStream

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

    from surehand.gateway.mcp.stdio.running_calls import InFlightRequests
    from surehand.gateway.mcp.stdio.tool_call_request import ToolCallRequest

SHUTDOWN_IDLE_SECONDS = 0.5
"""After the end of the input, running requests are cancelled if none was answered for this time."""
SHUTDOWN_TOTAL_SECONDS = 5.0
"""After the end of the input, running requests are cancelled at the latest after this time."""
_SUSPENDED_AFTER_SECONDS = 0.05
"""A timer that is late by more shows that this process was suspended, and so could not answer anything."""
_MESSAGES_PER_TURN = 64
"""Messages that are passed on in a row before other tasks of the loop run."""
_MAX_BACKLOG = 1024
"""Messages that may wait to be passed on, and refusals that may wait to be read, before reading pauses."""
_MAX_MESSAGES_BEFORE_REQUEST = 8
"""Messages before the first request that are kept."""


class ClientMessages(MessageReadStream):
    """The messages of one client, in order, for the dispatcher of the MCP SDK."""

    def __init__(
        self,
        input_descriptor: int,
        output_descriptor: int,
        limits: StdioLimits = DEFAULT_LIMITS,
        clock: Clock | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = clock or Clock()
        self.writer = DescriptorWriter(
            output_descriptor,
            on_room=self._resume_reading,
            on_lost=self.stop,
            timeout=limits.write_timeout_seconds,
            clock=self._clock,
        )
        self.queue = RequestQueue(
            limits, refuse=self._refuse, on_answered=self._request_answered, handle_directly=self._handle_directly
        )
        self._line_splitter = LineSplitter(limits.max_message_bytes)
        self._reader = DescriptorReader(input_descriptor, self._handle_chunk)
        self._receiver: asyncio.Future[None] | None = None
        self._received_count = 0
        self._unread_refusals = 0
        self._shutdown_timer: Timer | None = None
        self._shutdown_due = 0.0
        self._shutdown_limit = 0.0
        self._has_input_ended = False
        self.is_started = False
        """Whether the first message was asked for."""
        self.running_calls: InFlightRequests | None = None
        """Runs tool calls directly, where the server allows it."""
        self.is_stopped = False
        """Whether no more messages are passed on."""
        self._reader.start()

    def stop(self) -> None:
        """Pass no more messages on. The server then cancels the running requests."""
        self.is_stopped = True
        self._reader.stop()
        if self._shutdown_timer is not None:
            self._shutdown_timer.cancel()
        self._wake_receiver()

    async def aclose(self) -> None:
        """Stop reading."""
        await super().aclose()
        self.stop()

    async def first_request(self) -> JSONRPCRequest | None:
        """Wait for the first request, which `receive` still returns; None if the input ends without one."""
        self.is_started = True
        if self._has_input_ended:
            self._begin_shutdown()
        ready = self.queue.ready
        while not self.is_stopped:
            for item in ready:
                if isinstance(item.message, JSONRPCRequest):
                    return item.message
            while len(ready) > _MAX_MESSAGES_BEFORE_REQUEST:
                ready.pop()
            await self._wait_for_message()
        return None

    async def receive(self) -> SessionMessage:
        """The next message that is not handled directly. Raises `anyio.EndOfStream` when no more will come."""
        item = await self._next_message()
        while self.running_calls is not None and self.running_calls.try_handle(item.message):
            item = await self._next_message()
        return item

    async def _next_message(self) -> SessionMessage:
        ready = self.queue.ready
        while not ready and not self.is_stopped:
            await self._wait_for_message()
        self._received_count += 1
        if self._received_count % _MESSAGES_PER_TURN == 0:
            await asyncio.sleep(0)
        if self.is_stopped:
            raise EndOfStream
        item = ready.popleft()
        if len(ready) == _MAX_BACKLOG // 2:
            self._resume_reading()
        return item

    async def _wait_for_message(self) -> None:
        self._receiver = self._loop.create_future()
        await self._receiver

    def _handle_directly(self, message: ToolCallRequest | JSONRPCNotification) -> bool:
        """Handle a message without waking the receiver, which would be next to get it."""
        if self.running_calls is None or self.is_stopped or self.queue.ready:
            return False
        is_receiver_waiting = self._receiver is not None and not self._receiver.done()
        return is_receiver_waiting and self.running_calls.try_handle(message)

    def _handle_chunk(self, chunk: bytes) -> None:
        if not chunk:
            self._has_input_ended = True
            if self.is_started:  # before that the runtime is still starting, and cannot answer
                self._begin_shutdown()
        for line in self._line_splitter.split(chunk):
            if line and line != b"\r":
                self.queue.add(line)
        if self._is_backlog_full:
            self._reader.pause()
        self._continue_or_stop()

    @property
    def _is_backlog_full(self) -> bool:
        return len(self.queue.ready) > _MAX_BACKLOG or self._unread_refusals > _MAX_BACKLOG

    def _resume_reading(self) -> None:
        if not self.writer.is_full:
            self._unread_refusals = 0
        if not self._is_backlog_full:
            self._reader.start()

    def _refuse(self, error: JSONRPCError) -> None:
        # A response waits for room in the writer. A refusal cannot, but reading pauses once too many are unread.
        self._unread_refusals += self.writer.is_full
        self.writer.write(encode(error) + b"\n")

    def _request_answered(self) -> None:
        if self._shutdown_timer is not None and not self.is_stopped:
            self._restart_shutdown_timer()
        self._continue_or_stop()

    def _begin_shutdown(self) -> None:
        """The input has ended: give the requests that run some time to be answered."""
        self._shutdown_limit = self._clock.now() + SHUTDOWN_TOTAL_SECONDS
        self._restart_shutdown_timer()
        self._continue_or_stop()

    def _restart_shutdown_timer(self) -> None:
        if self._shutdown_timer is not None:
            self._shutdown_timer.cancel()
        now = self._clock.now()
        self._shutdown_due = min(now + SHUTDOWN_IDLE_SECONDS, self._shutdown_limit)
        self._shutdown_timer = self._clock.call_later(self._shutdown_due - now, self._end_shutdown)

    def _end_shutdown(self) -> None:
        # After SIGSTOP and SIGCONT, or a closed lid, all timers are due at once, and no request had its time.
        if self._shutdown_due + _SUSPENDED_AFTER_SECONDS < self._clock.now() < self._shutdown_limit:
            self._restart_shutdown_timer()
        else:
            self.stop()

    def _continue_or_stop(self) -> None:
        if self.queue.ready:
            self._wake_receiver()
        elif self._shutdown_timer is not None and self.queue.is_idle:
            self.stop()

    def _wake_receiver(self) -> None:
        if self._receiver is not None:
            wake(self._receiver)


class ServerMessages(MessageWriteStream):
    """The messages to the client of a `ClientMessages`."""

    def __init__(self, messages: ClientMessages) -> None:
        self._writer = messages.writer
        self._queue = messages.queue

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message, once there is room for it."""
        if self.is_closed:
            raise ClosedResourceError
        if self._writer.is_full:
            await self._writer.wait_for_room()
        if self._writer.is_closed:
            raise BrokenResourceError
        message = item.message
        self._writer.write(encode(message) + b"\n")
        if isinstance(message, (JSONRPCResponse, JSONRPCError)) and message.id is not None:
            self._queue.release(message.id)
