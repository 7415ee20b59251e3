"""Connection: one server for one user, and the one task that owns it. Loaded when the first is opened."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic as _now
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from surehand.core.errors import NotStarted
from surehand.providers.mcp.addresses.address import ANONYMOUS, ConnectionOwner, ServerAddress
from surehand.providers.mcp.addresses.labels import mask_secrets
from surehand.providers.mcp.connection.backoff import Backoff
from surehand.providers.mcp.connection.request import CallRequest
from surehand.providers.mcp.connection.session import McpClientSession
from surehand.providers.mcp.tools.manifest import Manifest
from surehand.providers.mcp.transports.connection_errors import ConnectionFailure, failure_from_error

if TYPE_CHECKING:
    from surehand.providers.mcp.options import ServerOptions

OnManifest: TypeAlias = Callable[["Connection", Manifest], Awaitable[None]]
"""Told what a server offers, before any call is sent to it."""
ConnectionState: TypeAlias = Literal["idle", "starting", "up", "waiting", "closed"]
_URL_SCHEME = re.compile(r"[a-z]+://")
CLOSE_TIMEOUT_SECONDS = 6.0
"""Seconds that the library has to let go of a connection."""


class Connection:
    """Any task may call; one alone enters and leaves the library's client, so no cancel scope is left in another.

    A request that comes while the server starts waits in a queue. One that comes while a broken server is left alone
    for a while is refused at once.
    """

    def __init__(
        self, name: str, address: ServerAddress, owner: ConnectionOwner, options: ServerOptions, on_manifest: OnManifest
    ) -> None:
        self.name, self.owner = name, owner
        self.state: ConnectionState = "idle"
        self._state_since = _now()
        """When it came to be so."""
        self.failure: ConnectionFailure | None = None
        """What went wrong last, until all is well again."""
        self.exit_report = ""
        """What the server itself had to say about that."""
        self.manifest: Manifest | None = None
        self.tool_definitions: Mapping[str, Mapping[str, Any]] = {}
        """The tools in it, by their names on the wire."""
        self.retries_forever = False
        """Whether it is tried for ever: where its tools are not known, no call can bring it back."""
        self.last_used_at = _now()
        self._address, self._options, self._on_manifest = address, options, on_manifest
        self._log = logging.getLogger(f"surehand.mcp.{name}")
        self._session: McpClientSession | None = None
        self._ended_sessions = 0
        """How many have ended."""
        self._owner_task: asyncio.Task[None] | None = None
        self._queued_requests: list[CallRequest] = []
        self._backoff = Backoff()
        self._is_closing = False
        self._state_changed = asyncio.Event()

    @property
    def is_busy(self) -> bool:
        """Whether somebody waits for it."""
        return bool(self._queued_requests) or self.state == "starting" or bool(self.open_requests)

    @property
    def starting_seconds(self) -> float:
        """Seconds for which the server has been starting."""
        return _now() - self._state_since if self.state == "starting" else 0.0

    @property
    def open_requests(self) -> list[CallRequest]:
        """The calls that the server works on, or waits with for somebody's answer."""
        return list(self._session.open_requests) if self._session is not None else []

    @property
    def exit_summary(self) -> str:
        """What is known of a server that does not come up, in words that a model may read."""
        return " ".join(self._session.exit_summary()) if self._session is not None else ""

    # For callers

    def submit(self, request: CallRequest) -> None:
        """Have a request carried out; it is told what comes of it."""
        self.last_used_at = _now()
        if self._session is not None and self._session.is_up:
            self._session.submit(request)
        elif self._is_closing or self.state == "waiting":
            request.deliver(self.unavailable_error())
        else:
            self._queued_requests.append(request)
            self._ensure_running()

    async def wait_started(self) -> Manifest:
        """Wait until the server is up and has said what it offers. Raises `NotStarted`."""
        self.last_used_at = _now()
        self._backoff.retry_now()
        lives = self._ended_sessions
        while self.state != "up" or self.manifest is None:
            if self._is_closing or self._ended_sessions > lives:
                raise self.unavailable_error(self._url_suffix)
            self._ensure_running()
            self._state_changed.clear()
            await self._state_changed.wait()
        return self.manifest

    async def relist_tools(self) -> Manifest:
        """Ask the server again what it offers."""
        if self._session is not None and self._session.is_up:
            await self._session.relist_tools()
        return await self.wait_started()

    def probe(self) -> None:
        """A call got no answer in time: see whether the server answers at all, and make it anew if not."""
        if self._session is not None:
            self._session.probe()

    async def close(self) -> None:
        """Leave the server, and leave nothing behind."""
        self._is_closing = True
        self._backoff.retry_now()
        if (owner := self._owner_task) is not None:
            if self._session is not None and self._session.is_up:
                self._session.end()
            else:  # it is still being made
                owner.cancel()
            _, late = await asyncio.wait({owner}, timeout=CLOSE_TIMEOUT_SECONDS)
            if late:
                self._log.warning("The connection to %s was not let go in time.", self.name)
                owner.cancel()
                await asyncio.wait({owner}, timeout=1.0)
        self._set_state("closed")

    # The owner

    def _ensure_running(self) -> None:
        if self._owner_task is None and not self._is_closing:
            self._set_state("starting")
            self._owner_task = asyncio.get_running_loop().create_task(self._run(), name=f"mcp: {self.name}")

    async def _run(self) -> None:
        try:
            while not self._is_closing:
                self._set_state("starting")
                well = await self._run_session()
                if not (bool(self._queued_requests) if well else await self._wait_for_retry()):
                    break
        finally:
            self._owner_task = self._session = None
            self._set_state("closed" if self._is_closing else "idle")
            self._refuse_queued_requests()

    async def _run_session(self) -> bool:
        """Whether it was left because nobody needs it."""
        life = self._session = McpClientSession(
            self.name,
            self._address,
            self._options,
            self._log,
            on_manifest=self._receive_manifest,
            on_answer=self._backoff.reset,
        )
        self._up_since: float | None = None
        try:
            reason = await life.run(self.owner, self._on_session_up)
        except (Exception, BaseExceptionGroup, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                raise
            self._record_failure(self._explain_failure(error, life))
            return False
        finally:
            self._queued_requests = [*life.unsent_requests(), *self._queued_requests]
            self._ended_sessions += 1
            self._state_changed.set()
        if reason and not self._is_closing:
            self._record_failure(ConnectionFailure(True, True, reason))
        return not reason or self._is_closing

    def _on_session_up(self) -> None:
        assert self._session is not None
        self._up_since, self.failure = _now(), None
        self._set_state("up")
        queue, self._queued_requests = self._queued_requests, []
        for request in queue:
            self._session.submit(request)

    async def _receive_manifest(self, manifest: Manifest) -> None:
        self.manifest, self.tool_definitions = manifest, {str(each.get("name")): each for each in manifest.tools}
        await self._on_manifest(self, manifest)

    # Failures

    def _explain_failure(self, error: BaseException, session: McpClientSession) -> ConnectionFailure:
        """What is told of it; the whole story, with what the server printed, is for the log."""
        told, trouble, self.exit_report = self.exit_report, failure_from_error(error), session.exit_report()
        news = [each for each in session.exit_summary() if not _already_mentions(trouble.message, each)]
        message = " ".join([trouble.message, *news])
        if "\n" in self.exit_report and self.exit_report != told:  # what it says each time is told once
            self._log.warning("The MCP server %s: %s", self.name, self.exit_report)
        hopeless = trouble.is_permanent or self._address.is_permanent_error(error)
        return ConnectionFailure(
            trouble.was_sent, True, message, is_permanent=hopeless, depends_on_user=trouble.depends_on_user
        )

    def _record_failure(self, failure: ConnectionFailure) -> None:
        self._backoff.record_failure(0.0 if self._up_since is None else _now() - self._up_since)
        # One that was never up is told of by whoever waits for it; that it is still down is no news.
        news = self.manifest is not None and self.failure is None
        self.failure = failure
        level = logging.WARNING if news else logging.INFO
        self._log.log(level, "The MCP server %s%s is down: %s", self.name, self._url_suffix, failure.message)

    async def _wait_for_retry(self) -> bool:
        """Whether there is reason to; waits for as long as a broken server is left alone."""
        if self.failure is not None and self.failure.is_permanent:
            return False
        if self._backoff.remaining_seconds and not self._is_closing:
            self._set_state("waiting")
            self._refuse_queued_requests()
            await self._backoff.wait()
        again = (
            self._options.per != "session" or self._backoff.consecutive_failures < 2
        )  # else its next call starts it again
        return bool(self._queued_requests) or self.retries_forever or (again and self._is_recently_used())

    def _is_recently_used(self) -> bool:
        return self._options.idle is None or _now() - self.last_used_at < float(self._options.idle)

    @property
    def _url_suffix(self) -> str:
        """The URL of one that has any, in brackets, for people: a host alone does not say which of its servers."""
        return f" ({mask_secrets([self._address.label])[0]})" if _URL_SCHEME.match(self._address.label) else ""

    def unavailable_error(self, url_suffix: str = "") -> NotStarted:
        """What is said of it while it is not up."""
        if self._is_closing:
            return NotStarted(f"The MCP server {self.name} is not connected: the runtime is closing.")
        left = self._backoff.remaining_seconds if self.state == "waiting" else None
        waits = self._needs_sign_in
        state = "waits for a user to sign in" if waits else "is not connected"
        why = f": {self.failure.message}" if self.failure else "."
        when = f" It is tried again in {left:.0f} s." if left is not None and not waits else ""
        code = "mcp_restart_failed" if left is None else "mcp_restart_in_progress"
        return NotStarted(
            f"The MCP server {self.name}{url_suffix} {state}{why}{when}",
            data={"reason": code, "server": self.name},
            retry_after=left,
        )

    @property
    def _needs_sign_in(self) -> bool:
        """Whether it is down because nobody in particular is let in."""
        shared = self._options.per == "everyone"
        return self.failure is not None and self.failure.depends_on_user and self.owner == ANONYMOUS and not shared

    def _refuse_queued_requests(self) -> None:
        queue, self._queued_requests = self._queued_requests, []
        for request in queue:
            request.deliver(self.unavailable_error())

    def _set_state(self, state: ConnectionState) -> None:
        if state != self.state:
            self.state, self._state_since = state, _now()
        self._state_changed.set()


def _is_being_cancelled() -> bool:
    """A transport that breaks cancels the task that entered it, and takes that back; anybody else means it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _already_mentions(message: str, sentence: str) -> bool:
    """Whether the message has said it already: how the server ended, or what it wrote last."""
    return any(each in message and each in sentence for each in _EXIT_PHRASES)


_EXIT_PHRASES = ("exit code", "with signal", "It last wrote:")
