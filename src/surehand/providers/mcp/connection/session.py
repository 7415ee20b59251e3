"""One session with a server: an entered `mcp.Client`, its open requests, notifications and health check.

The owner task of a connection runs it from connecting to shutdown; a restart creates a new one. It loads the MCP SDK.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp import Client

from surehand.core.errors import Unavailable
from surehand.providers.mcp.connection.connection_tasks import ConnectionTasks
from surehand.providers.mcp.connection.direct_call import DirectToolCalls
from surehand.providers.mcp.connection.elicitation_order import ElicitationOrder
from surehand.providers.mcp.connection.health import SessionHealth
from surehand.providers.mcp.connection.inbound_filter import InboundFilter
from surehand.providers.mcp.connection.notifications import ServerNotifications
from surehand.providers.mcp.connection.request import CallRequest, ConnectionLost
from surehand.providers.mcp.connection.silence_timeout import SilenceTimeout
from surehand.providers.mcp.connection.tools_list import fetch_manifest
from surehand.providers.mcp.connection_errors import failure_from_error
from surehand.providers.mcp.tools.manifest import Manifest
from surehand.providers.mcp.transports.traced_transport import TracedTransport
from surehand.providers.mcp.transports.transport import Transport
from surehand.version import __version__

if TYPE_CHECKING:
    from surehand.providers.mcp.addresses.address import InProcessServer, ServerAddress
    from surehand.providers.mcp.connection_owner import ConnectionOwner
    from surehand.providers.mcp.connection_secrets import ConnectionSecrets, ServerLog
    from surehand.providers.mcp.options import ServerOptions

RELIST_TIMEOUT_SECONDS = 30.0
"""Time for a server to list its tools again."""


class McpClientSession:
    """Entered and left by the owner task of its connection. Its tasks and requests end with it."""

    def __init__(
        self,
        name: str,
        address: ServerAddress,
        options: ServerOptions,
        log: ServerLog,
        secrets: ConnectionSecrets,
        *,
        on_manifest: Callable[[Manifest], Awaitable[None]],
        on_answer: Callable[[], None],
    ) -> None:
        self.name = name
        self._address = address
        self._options = options
        self._log = log
        self._secrets = secrets
        self._on_manifest = on_manifest
        self._on_answer = on_answer
        self.client: Client | None = None
        """The client while the server is up, otherwise None."""
        self.open_requests: dict[CallRequest, None] = {}
        """Requests in flight, or with a question that waits for an answer; oldest first. The values have no meaning."""
        self._end_future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._end_reason = ""
        self._unsent_requests: list[CallRequest] = []
        self._transport: Transport | None = None
        """None for a server object of this process."""
        self._inbound_filter: InboundFilter | None = None
        self._uses_handshake_protocol = False
        self._background_tasks = ConnectionTasks(name)
        self._elicitation_order = ElicitationOrder(self._begin_request)
        self._silence_timeout = SilenceTimeout(options.silence_timeout)
        self._notifications = ServerNotifications(log, self._background_tasks, self.relist_tools)
        self._health = SessionHealth(options, log, self)

    @property
    def is_up(self) -> bool:
        """Whether calls can be sent."""
        return self.client is not None and not self._end_future.done()

    async def run(self, owner: ConnectionOwner, on_up: Callable[[], None]) -> str:
        """Connect, stay up until `end` is called, and shut down.

        Returns the reason for the end, which is empty for an idle server. Raises if the server does not come up.
        """
        try:
            async with AsyncExitStack() as stack:
                self.client = await self._connect(stack, owner)
                on_up()
                self._notifications.start_listening(self.client)
                self._background_tasks.start("health", self._health.watch(self.client))
                try:
                    return await self._end_future
                finally:
                    self._shut_down()
        finally:
            self._shut_down()
            await self._background_tasks.wait_until_done()
            for request in list(self.open_requests):
                await request.wait_ended()
            if self._direct_calls is not None:
                await self._direct_calls.finish_writing()

    def end(self, reason: str = "") -> None:
        """End the session. Without a reason it is not counted as a failure."""
        self._end_reason = self._end_reason or reason
        if not self._end_future.done():
            self._end_future.set_result(reason)

    def unsent_requests(self) -> list[CallRequest]:
        """Requests that were not sent, for the next session."""
        return self._unsent_requests

    def exit_report(self) -> str:
        """How the server ended and what it wrote to stderr, for a person."""
        return self._transport.exit_report() if self._transport is not None else ""

    def exit_summary(self) -> list[str]:
        """How the server ended, in sentences that a model may read."""
        return self._transport.exit_summary() if self._transport is not None else []

    # Calls

    def submit(self, request: CallRequest) -> None:
        """Send a request, or hold it until an earlier one of its tool has asked a question or ended."""
        self._health.record_use()
        if self._uses_handshake_protocol:
            self._elicitation_order.submit(request)
        else:
            self._begin_request(request)

    def _begin_request(self, request: CallRequest) -> None:
        assert self.client is not None
        self.open_requests[request] = None
        request.begin(
            self._direct_calls or self.client.session,
            self._silence_timeout,
            on_end=self._on_request_end,
            reconnect=self.end,
        )

    def _on_request_end(self, request: CallRequest) -> None:
        self.open_requests.pop(request, None)
        if self._uses_handshake_protocol:
            self._elicitation_order.record_end(request)
        if request.is_answered:
            self._health.record_answer()
            self._on_answer()
        else:
            self._health.record_use()

    def probe(self) -> None:
        """Check in the background whether the server answers. If not, the session ends."""
        if self.client is not None:
            self._background_tasks.start("probe", self._health.probe(self.client))

    async def relist_tools(self) -> None:
        """List the server's tools again, and pass the manifest on."""
        client = self.client
        if client is None:
            return
        try:
            async with asyncio.timeout(RELIST_TIMEOUT_SECONDS):
                manifest = await self._fetch_manifest(client)
        except TimeoutError:
            raise Unavailable(f"{self.name} does not say what it offers within {RELIST_TIMEOUT_SECONDS:g} s.") from None
        except Exception as error:
            message = self._secrets.redact(failure_from_error(error).message)
            raise Unavailable(f"{self.name} does not say what it offers: {message}") from error
        self._health.record_message()
        await self._on_manifest(manifest)

    async def _on_elicitation(
        self, context: Any, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Handle `elicitation/create`, which a server of the handshake protocol sends while it works on a call."""
        candidates = [
            request for request in self.open_requests if request.open_question is None and not request.is_over
        ]
        request = self._elicitation_order.find_asking_request(candidates)
        if request is None:
            self._log.warning("Refused a question of %s: it may belong to any of %d calls.", self.name, len(candidates))
            return types.ErrorData(code=types.INVALID_REQUEST, message="It is not known which call this is about.")
        answer = request.ask_question(params.model_dump(mode="json", by_alias=True, exclude_none=True))
        self._elicitation_order.record_question(request)
        return await answer

    # Connecting and shutting down

    async def _connect(self, stack: AsyncExitStack, owner: ConnectionOwner) -> Client:
        # Not anyio's timeout: its cancel scope would be left before the client that is entered within it.
        async with asyncio.timeout(self._address.connection_timeout_seconds):
            client = await self._enter_client(stack, owner)
            self._uses_handshake_protocol = client.protocol_version < "2026"
            if self._direct_calls is not None:
                self._direct_calls.use_protocol(client.protocol_version)
            await self._on_manifest(await self._fetch_manifest(client))
        return client

    async def _fetch_manifest(self, client: Client) -> Manifest:
        manifest = await fetch_manifest(client, self._log)
        if self._direct_calls is not None:
            self._direct_calls.use_tools({str(tool.get("name")): tool.get("inputSchema") for tool in manifest.tools})
        return manifest

    @property
    def _direct_calls(self) -> DirectToolCalls | None:
        """The direct path; None for a server object of this process."""
        return self._inbound_filter.direct_calls if self._inbound_filter is not None else None

    async def _enter_client(self, stack: AsyncExitStack, owner: ConnectionOwner) -> Client:
        *others, last = self._create_transports(owner)
        for transport in others:
            try:
                return await stack.enter_async_context(self._build_client(transport))
            except Exception as error:
                if not self._address.should_try_next_transport(error):
                    raise
                self._log.info("%s Trying the next transport.", failure_from_error(error).message)
        return await stack.enter_async_context(self._build_client(last))

    def _create_transports(self, owner: ConnectionOwner) -> Sequence[Transport | InProcessServer]:
        targets = self._address.create_transports(owner, self.end, self._secrets)
        if not self._options.trace:
            return targets
        if not all(isinstance(each, Transport) for each in targets):
            self._log.info("%s is an object of this process: there are no messages to trace.", self.name)
        return [
            TracedTransport(each, self._log, self._secrets) if isinstance(each, Transport) else each for each in targets
        ]

    def _build_client(self, target: Transport | InProcessServer) -> Client:
        is_modern = self._options.protocol not in ("auto", "legacy")
        self._transport = target if isinstance(target, Transport) else None
        self._inbound_filter = None
        if self._transport is not None:
            self._inbound_filter = InboundFilter(
                self._transport,
                self._log,
                self._secrets,
                on_list_changed=self._notifications.on_list_changed,
                is_modern=is_modern,
            )
        return Client(
            self._inbound_filter or target,
            mode=self._options.protocol,
            elicitation_callback=self._on_elicitation,
            message_handler=self._notifications.on_message,
            logging_callback=self._notifications.on_log_message,
            client_info=_client_info(),
            cache=None,
        )

    def _shut_down(self) -> None:
        """End all requests and tasks without awaiting: the MCP SDK may be cancelling this task."""
        self.client = None
        # Before the open requests are cancelled: the end of one would let the next of its tool begin.
        self._unsent_requests += self._elicitation_order.clear()
        self._background_tasks.cancel()
        self._silence_timeout.close()
        for request in list(self.open_requests):
            request.cancel()
            request.deliver(ConnectionLost(self._end_reason or "The connection was closed."))


def _client_info() -> types.Implementation:
    return types.Implementation(name="surehand", version=__version__)
