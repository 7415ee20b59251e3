"""The stdio transport: a child process that reads and writes one JSON message per line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from anyio import CancelScope

from surehand.jsonrpc.codec import MalformedMessage, OverlongFrame, encode_request, parse_frame, simple_response
from surehand.jsonrpc.limits import SERVER_MESSAGE_LIMITS
from surehand.jsonrpc.line_splitter import LineSplitter
from surehand.jsonrpc.streams import MessageReadStream, MessageWriteStream
from surehand.providers.mcp.connection_owner import ConnectionOwner
from surehand.providers.mcp.connection_secrets import ConnectionSecrets
from surehand.providers.mcp.labels import mask_secrets_in_line
from surehand.providers.mcp.tools.plain_result import MAX_DIRECT_BYTES
from surehand.providers.mcp.transports.exit_causes import describe_exit_cause
from surehand.providers.mcp.transports.message_pump import FrameTooLong, MessagePump
from surehand.providers.mcp.transports.stderr_log import StderrLog
from surehand.providers.mcp.transports.transport import TOOLS_CALL, Headers, OnConnectionEnd, ResultReceiver, Transport
from surehand.sandbox.child_process import ChildProcess
from surehand.sandbox.sandbox import Sandbox

if TYPE_CHECKING:
    import logging

    from surehand.sandbox.sandbox import Unprotected

CHUNK_BYTES = 1 << 16
EXIT_TIMEOUT_SECONDS = 1.5
"""Time for a server to exit after its input is closed."""
TERMINATE_TIMEOUT_SECONDS = 0.5
"""Time to exit after SIGTERM. Then the server and all processes that it started are killed."""
_EXIT_CODE_TIMEOUT_SECONDS = 0.5
"""Time to wait for the exit code of a server that has closed its output."""
_STDERR_TIMEOUT_SECONDS = 1.0
"""Time to read the rest of the stderr of a server that has exited."""
_MAX_CHUNKS_AT_EXIT = 512
"""Chunks that are read from a server while it exits."""


class StdioEndpoint(Protocol):
    """The part of a stdio address that the transport uses."""

    cwd: str | None
    max_frame: int

    @property
    def log(self) -> logging.Logger:
        """The logger of the server."""
        ...

    async def sandbox_for(
        self, owner: ConnectionOwner, secrets: ConnectionSecrets | None = None
    ) -> Sandbox | Unprotected:
        """The sandbox of the process, with the environment variables for one owner."""
        ...

    def validate_start(self, sandbox: Sandbox | Unprotected) -> str:
        """Return the working directory, or raise if the server cannot be started."""
        ...

    def start_command(self, folder: str) -> list[str]:
        """The command line for starting the server in that directory."""
        ...


class StdioTransport(Transport):
    """The process of a server, and its standard streams."""

    def __init__(
        self,
        address: StdioEndpoint,
        owner: ConnectionOwner,
        on_end: OnConnectionEnd,
        secrets: ConnectionSecrets | None = None,
    ) -> None:
        self._address = address
        self._secrets = secrets or ConnectionSecrets()
        self._owner = owner
        self._report_end = on_end
        self._child: ChildProcess | None = None
        self._stderr = StderrLog(address.log, self._secrets)
        self._exit_code: int | None = None
        self._has_closed_output = False

    async def __aenter__(self) -> tuple[MessageReadStream, MessageWriteStream]:
        address = self._address
        surroundings = await address.sandbox_for(self._owner, self._secrets)
        folder = address.validate_start(surroundings)
        readable = [folder] if isinstance(surroundings, Sandbox) and address.cwd else []
        self._child = await ChildProcess.start(
            address.start_command(folder),
            cwd=folder,
            sandbox=surroundings,
            read=readable,
            stdin=True,
            limit=CHUNK_BYTES,
        )
        self._stderr_reader = asyncio.create_task(self._stderr.read(self._child.stderr), name="mcp: stderr")
        self._line_channel = LineChannel(self._child, address.max_frame, self.closing_reason)
        self._pump = MessagePump(self._line_channel, log=address.log, on_end=self._report_end, secrets=self._secrets)
        return self._pump.streams()

    async def __aexit__(self, *_: object) -> None:
        child = self._child
        assert child is not None
        self._pump.mark_closing()
        with CancelScope(shield=True):
            try:
                await self._wait_for_exit(child)
            finally:
                await self._stop(child)

    async def _wait_for_exit(self, child: ChildProcess) -> None:
        """Close its input and read its output: a server blocked on a full pipe would not see the end of its input."""
        # MCP has no message for shutting down: over stdio a client closes the input, then sends SIGTERM, then SIGKILL.
        child.stdin.close_when_drained()
        with suppress(TimeoutError, RuntimeError):  # another task is still reading
            async with asyncio.timeout(EXIT_TIMEOUT_SECONDS):
                for _ in range(_MAX_CHUNKS_AT_EXIT):
                    if not await child.stdout.read(CHUNK_BYTES):
                        break
                else:
                    return
                await child.wait()

    async def _stop(self, child: ChildProcess) -> None:
        try:
            await child.stop(TERMINATE_TIMEOUT_SECONDS)
            await self._wait_for_exit_code(0.1)
            await self._read_rest_of_stderr()
        finally:
            self._stderr_reader.cancel()

    def deliver_results_to(self, receiver: ResultReceiver) -> None:
        """Parse short lines in the read callback, while no earlier line waits to be handled."""
        self._receive_result = receiver
        self._line_channel.deliver_lines_to(self._receive_line)

    def _receive_line(self, line: bytes) -> bool:
        """Deliver a line that is a plain result. Returns False if the line has to be read as a message."""
        value = parse_frame(line, SERVER_MESSAGE_LIMITS)
        response = None if isinstance(value, MalformedMessage) else simple_response(value)
        if response is None or not self._receive_result(*response):
            return False
        self._pump.remove_pending(response[0])
        return True

    def try_send_call(self, request_id: int, params: dict[str, Any], headers: Headers) -> bool:
        """Write the call at once if no earlier line waits to be written."""
        if not self._pump.is_open:
            return False
        frame = encode_request(request_id, TOOLS_CALL, params)
        try:
            is_written = self._line_channel.try_send(frame)
        except OSError:  # sending it as an ordinary message will report the failure
            return False
        if is_written:
            self._pump.add_pending(request_id)
        return is_written

    @property
    def malformed_count(self) -> int:
        """How many lines were not messages."""
        return self._pump.malformed_count

    async def closing_reason(self) -> str:
        """Why the server has exited, with its exit code if that is known soon enough."""
        self._has_closed_output = True
        # An exiting process closes its pipes before it can be waited for: the exit code comes a moment later.
        await self._wait_for_exit_code(_EXIT_CODE_TIMEOUT_SECONDS)
        if self._exit_code is not None:
            await self._read_rest_of_stderr()
        event = "closed its output"
        if self._exit_code is not None:
            event = f"ended by itself, with {_describe_exit(self._exit_code)}"
        return " ".join(part for part in (f"The server {event}.", self._last_line, self._cause) if part)

    async def _wait_for_exit_code(self, seconds: float) -> None:
        assert self._child is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                self._exit_code = await self._child.wait()

    async def _read_rest_of_stderr(self) -> None:
        await asyncio.wait({self._stderr_reader}, timeout=_STDERR_TIMEOUT_SECONDS)

    @property
    def _last_line(self) -> str:
        return f"It last wrote: {mask_secrets_in_line(self._stderr.last_lines[-1])}" if self._stderr.last_lines else ""

    @property
    def _cause(self) -> str:
        """Why it ended by itself, if its exit code or its stderr tells."""
        return describe_exit_cause(self._exit_code, self._stderr.last_lines) if self._has_closed_output else ""

    @property
    def _exit_sentence(self) -> str:
        return "" if self._exit_code is None else f"It ended with {_describe_exit(self._exit_code)}."

    def exit_summary(self) -> list[str]:
        """How it exited, if on its own, and the last line of its stderr, each in a sentence."""
        sentences = [self._exit_sentence if self._has_closed_output else "", self._last_line, self._cause]
        return [sentence for sentence in sentences if sentence]

    def exit_report(self) -> str:
        """How it exited, and the last lines of its stderr."""
        stderr = "\n".join(f"  {line}" for line in self._stderr.last_lines)
        parts = [self._exit_sentence, self._cause, f"The last lines of its stderr:\n{stderr}" if stderr else ""]
        return "\n".join(part for part in parts if part)


def _describe_exit(code: int) -> str:
    # As in a shell: a process that was killed by a signal has the exit code 128 and the number of the signal.
    return f"exit code {code}" if code <= 128 else f"signal {code - 128}"


class LineChannel:
    """Lines of a process's output, read in large chunks, and lines to its input."""

    def __init__(
        self, child: ChildProcess, max_bytes: int, closing_reason: Callable[[], Coroutine[Any, Any, str]]
    ) -> None:
        self._child = child
        self._max_bytes = max_bytes
        self._splitter = LineSplitter(max_bytes)
        self._is_waiting = False
        """Whether all earlier lines are handled and the reader waits. Only then may a line be delivered directly."""
        self.closing_reason = closing_reason

    def deliver_lines_to(self, receiver: Callable[[bytes], bool]) -> None:
        """Give lines to the receiver as soon as they arrive, in order. Lines that it refuses are read later."""
        self._receive_line = receiver
        self._max_direct_bytes = min(self._max_bytes, MAX_DIRECT_BYTES)
        self._child.stdout.interceptor = self._deliver

    def _deliver(self, chunk: bytes) -> bytes:
        """Deliver complete lines until one is refused, and return the rest of the chunk."""
        start = 0
        if self._is_waiting and self._splitter.is_empty:
            end = chunk.find(b"\n")
            while 0 <= end <= start + self._max_direct_bytes and self._receive_line(chunk[start:end]):
                start = end + 1
                end = chunk.find(b"\n", start)
        self._is_waiting = self._is_waiting and start == len(chunk)
        return chunk[start:]

    async def _read(self) -> bytes:
        # While this task waits, the read callback may deliver lines itself: no earlier line can be overtaken.
        self._is_waiting = True
        try:
            return await self._child.stdout.read(CHUNK_BYTES)
        finally:
            self._is_waiting = False

    async def receive(self) -> list[bytes]:
        """All lines that have arrived."""
        while chunk := await self._read():
            frames: list[bytes] = []
            for line in self._splitter.split(chunk):
                if isinstance(line, OverlongFrame):
                    raise FrameTooLong(self._max_bytes)
                if line:
                    frames.append(line)
            if self._splitter.is_overlong:
                raise FrameTooLong(self._max_bytes)
            if frames:
                return frames
            await asyncio.sleep(0)  # a million empty lines may arrive at once: let other tasks run
        return []

    def try_send(self, frame: bytes) -> bool:
        """Write a line if none before it waits to be written."""
        return self._child.stdin.try_write(frame + b"\n")

    async def send(self, frame: bytes) -> None:
        """Write a line after the earlier ones, so that at most one is buffered for a slow server."""
        stdin = self._child.stdin
        await stdin.drain()
        stdin.write(frame + b"\n")
        await stdin.drain()
