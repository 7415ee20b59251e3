"""One server for one user: a queue of requests, and the one task that owns the session and restarts it.

The connection pool creates it when the first call or list needs it. It loads the MCP SDK.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from time import monotonic as _now
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from surehand.core.errors import NotStarted
from surehand.providers.mcp.addresses.address import ServerAddress
from surehand.providers.mcp.connection.backoff import Backoff
from surehand.providers.mcp.connection.request import CallRequest
from surehand.providers.mcp.connection.session import McpClientSession
from surehand.providers.mcp.connection_errors import ConnectionFailure, failure_from_error
from surehand.providers.mcp.connection_owner import ANONYMOUS, ConnectionOwner
from surehand.providers.mcp.connection_secrets import ConnectionSecrets, RedactingLog
from surehand.providers.mcp.labels import mask_secrets
from surehand.providers.mcp.tools.manifest import Manifest
from surehand.providers.mcp.transports.transport import is_being_cancelled

if TYPE_CHECKING:
    from surehand.providers.mcp.options import ServerOptions

OnManifest: TypeAlias = Callable[["Connection", Manifest], Awaitable[None]]
"""Called with the manifest of a server before any call is sent to it."""
ConnectionState: TypeAlias = Literal["idle", "starting", "up", "waiting", "closed"]
_URL_SCHEME = re.compile(r"[a-z]+://")
CLOSE_TIMEOUT_SECONDS = 6.0
"""Time for the MCP SDK to close a connection."""


class Connection:
    """Any task may submit requests. One owner task alone enters and leaves the SDK's client.

    anyio requires this: a cancel scope must be left in the task that entered it. Requests are queued while the server
    starts, and refused at once during a back-off.
    """

    def __init__(
        self, name: str, address: ServerAddress, owner: ConnectionOwner, options: ServerOptions, on_manifest: OnManifest
    ) -> None:
        self.name = name
        self.owner = owner
        self.state: ConnectionState = "idle"
        self._state_since = _now()
        """When `state` last changed."""
        self.failure: ConnectionFailure | None = None
        """The last failure, until the server is up again."""
        self.exit_report = ""
        """How the server ended, with the last lines of its stderr."""
        self.manifest: Manifest | None = None
        self.tool_definitions: Mapping[str, Mapping[str, Any]] = {}
        """The tools of the manifest, by wire name."""
        self.retries_forever = False
        """Whether it is retried without limit: as long as its tools are unknown, no call can start it again."""
        self.last_used_at = _now()
        self._address = address
        self._options = options
        self._on_manifest = on_manifest
        self.secrets = ConnectionSecrets()
        """Added by its transports, and masked in what its server says."""
        self._log = RedactingLog(logging.getLogger(f"surehand.mcp.{name}"), self.secrets)
        self._session: McpClientSession | None = None
        self._ended_sessions = 0
        """How many sessions have ended."""
        self._owner_task: asyncio.Task[None] | None = None
        self._queued_requests: list[CallRequest] = []
        self._backoff = Backoff()
        self._is_closing = False
        self._state_changed = asyncio.Event()

    @property
    def is_busy(self) -> bool:
        """Whether it is starting, or has requests that are queued or open."""
        return bool(self._queued_requests) or self.state == "starting" or bool(self.open_requests)

    @property
    def starting_seconds(self) -> float:
        """How long the server has been starting."""
        return _now() - self._state_since if self.state == "starting" else 0.0

    @property
    def open_requests(self) -> list[CallRequest]:
        """The calls that the server works on, or that wait for the answer to a question."""
        return list(self._session.open_requests) if self._session is not None else []

    @property
    def exit_summary(self) -> str:
        """How the server ended, in sentences that a model may read."""
        return self.secrets.redact(" ".join(self._session.exit_summary())) if self._session is not None else ""

    # For callers

    def submit(self, request: CallRequest) -> None:
        """Send a request, or queue it until the server is up. The result or error is delivered to the request."""
        self.last_used_at = _now()
        if self._session is not None and self._session.is_up:
            self._session.submit(request)
        elif self._is_closing or self.state == "waiting":
            request.deliver(self.unavailable_error())
        else:
            self._queued_requests.append(request)
            self._ensure_running()

    async def wait_started(self) -> Manifest:
        """Wait until the server is up and its manifest is known. Raises `NotStarted`."""
        self.last_used_at = _now()
        self._backoff.retry_now()
        ended_before = self._ended_sessions
        while self.state != "up" or self.manifest is None:
            if self._is_closing or self._ended_sessions > ended_before:
                raise self.unavailable_error(self._url_suffix)
            self._ensure_running()
            self._state_changed.clear()
            await self._state_changed.wait()
        return self.manifest

    async def relist_tools(self) -> Manifest:
        """List the server's tools again."""
        if self._session is not None and self._session.is_up:
            await self._session.relist_tools()
        return await self.wait_started()

    def probe(self) -> None:
        """Check whether the server answers at all, after a call timed out. If not, the session is restarted."""
        if self._session is not None:
            self._session.probe()

    async def close(self) -> None:
        """End the session, and wait until the owner task has ended."""
        self._is_closing = True
        self._backoff.retry_now()
        owner_task = self._owner_task
        if owner_task is not None:
            if self._session is not None and self._session.is_up:
                self._session.end()
            else:  # it is still connecting
                owner_task.cancel()
            _, still_running = await asyncio.wait({owner_task}, timeout=CLOSE_TIMEOUT_SECONDS)
            if still_running:
                self._log.warning("The connection to %s did not close within %g s.", self.name, CLOSE_TIMEOUT_SECONDS)
                owner_task.cancel()
                await asyncio.wait({owner_task}, timeout=1.0)
        self._set_state("closed")

    # The owner task

    def _ensure_running(self) -> None:
        if self._owner_task is None and not self._is_closing:
            self._set_state("starting")
            self._owner_task = asyncio.get_running_loop().create_task(self._run(), name=f"mcp: {self.name}")

    async def _run(self) -> None:
        try:
            while not self._is_closing:
                self._set_state("starting")
                ended_on_purpose = await self._run_session()
                should_continue = bool(self._queued_requests) if ended_on_purpose else await self._wait_for_retry()
                if not should_continue:
                    break
        finally:
            self._owner_task = None
            self._session = None
            self._set_state("closed" if self._is_closing else "idle")
            self._refuse_queued_requests()

    async def _run_session(self) -> bool:
        """Run one session to its end. Returns whether it ended on purpose, because it was idle or is closing."""
        session = self._session = McpClientSession(
            self.name,
            self._address,
            self._options,
            self._log,
            self.secrets,
            on_manifest=self._receive_manifest,
            on_answer=self._backoff.reset,
        )
        self._up_since: float | None = None
        try:
            reason = await session.run(self.owner, self._on_session_up)
        except (Exception, BaseExceptionGroup, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                raise
            self._record_failure(self._explain_failure(error, session))
            return False
        finally:
            self._queued_requests = [*session.unsent_requests(), *self._queued_requests]
            self._ended_sessions += 1
            self._state_changed.set()
        if reason and not self._is_closing:
            self._record_failure(ConnectionFailure(was_sent=True, is_connection_lost=True, message=reason))
        return not reason or self._is_closing

    def _on_session_up(self) -> None:
        assert self._session is not None
        self._up_since = _now()
        self.failure = None
        self._set_state("up")
        requests, self._queued_requests = self._queued_requests, []
        for request in requests:
            self._session.submit(request)

    async def _receive_manifest(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.tool_definitions = {str(definition.get("name")): definition for definition in manifest.tools}
        await self._on_manifest(self, manifest)

    # Failures

    def _explain_failure(self, error: BaseException, session: McpClientSession) -> ConnectionFailure:
        """The failure that callers see. The full exit report, with the server's stderr, goes to the log."""
        failure = failure_from_error(error)
        sentences = [text for text in session.exit_summary() if not _already_mentions(failure.message, text)]
        previous_report = self.exit_report
        self.exit_report = self.secrets.redact(session.exit_report())
        if "\n" in self.exit_report and self.exit_report != previous_report:  # a repeated report is logged once
            # The runtime that starts the server warns of its failure.
            level = logging.INFO if self.retries_forever and self.manifest is None else logging.WARNING
            self._log.log(level, "The MCP server %s: %s", self.name, self.exit_report)
        return ConnectionFailure(
            was_sent=failure.was_sent,
            is_connection_lost=True,
            message=" ".join([failure.message, *sentences]),
            is_permanent=failure.is_permanent or self._address.is_permanent_error(error),
            depends_on_user=failure.depends_on_user,
        )

    def _record_failure(self, failure: ConnectionFailure) -> None:
        failure = replace(failure, message=self.secrets.redact(failure.message))
        self._backoff.record_failure(0.0 if self._up_since is None else _now() - self._up_since)
        # If the server was never up, the task that waits for it reports the failure; a repeated failure is no warning.
        is_new = self.manifest is not None and self.failure is None
        self.failure = failure
        level = logging.WARNING if is_new else logging.INFO
        self._log.log(level, "The MCP server %s%s is down: %s", self.name, self._url_suffix, failure.message)

    async def _wait_for_retry(self) -> bool:
        """Wait for the back-off. Returns whether to start the server again."""
        if self.failure is not None and self.failure.is_permanent:
            return False
        if self._backoff.remaining_seconds and not self._is_closing:
            self._set_state("waiting")
            self._refuse_queued_requests()
            await self._backoff.wait()
        # A connection of one session is retried once: after that, the session's next call starts it.
        may_retry = self._options.per != "session" or self._backoff.consecutive_failures < 2
        return bool(self._queued_requests) or self.retries_forever or (may_retry and self._is_recently_used())

    def _is_recently_used(self) -> bool:
        return self._options.idle is None or _now() - self.last_used_at < float(self._options.idle)

    @property
    def _url_suffix(self) -> str:
        """The URL in brackets, for people; empty for a command. The name of a host does not tell its servers apart."""
        return f" ({mask_secrets([self._address.label])[0]})" if _URL_SCHEME.match(self._address.label) else ""

    def unavailable_error(self, url_suffix: str = "") -> NotStarted:
        """The error of a call while the server is not up."""
        if self._is_closing:
            return NotStarted(f"The MCP server {self.name} is not connected: the runtime is closing.")
        retry_after = self._backoff.remaining_seconds if self.state == "waiting" else None
        state = "waits for a user to sign in" if self._needs_sign_in else "is not connected"
        reason = f": {self.failure.message}" if self.failure else "."
        retry = ""
        if retry_after is not None and not self._needs_sign_in:
            retry = f" It is tried again in {retry_after:.0f} s."
        code = "mcp_restart_failed" if retry_after is None else "mcp_restart_in_progress"
        return NotStarted(
            f"The MCP server {self.name}{url_suffix} {state}{reason}{retry}",
            data={"reason": code, "server": self.name},
            retry_after=retry_after,
        )

    @property
    def _needs_sign_in(self) -> bool:
        """Whether the server refuses anonymous connections, and users have connections of their own."""
        if self.owner != ANONYMOUS or self._options.per == "everyone":
            return False
        return self.failure is not None and self.failure.depends_on_user

    def _refuse_queued_requests(self) -> None:
        requests, self._queued_requests = self._queued_requests, []
        for request in requests:
            request.deliver(self.unavailable_error())

    def _set_state(self, state: ConnectionState) -> None:
        if state != self.state:
            self.state = state
            self._state_since = _now()
        self._state_changed.set()


def _already_mentions(message: str, sentence: str) -> bool:
    """Whether a message already says how the server ended, or what it wrote last."""
    return sentence in message or any(phrase in message and phrase in sentence for phrase in _EXIT_PHRASES)


_EXIT_PHRASES = ("exit code", "with signal", "It last wrote:")
