"""WebhookSender: sends the waits of a runtime to its webhooks, each at least once, also over restarts.

What has to be sent is read from the store: the open questions that a webhook has no delivery of. So no wait is missed,
in whatever process it began. Any number of processes may do this; one of them takes each delivery for its attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from surehand.core.errors import ToolError
from surehand.core.events import CallPending, Event
from surehand.core.retry_after import parse_retry_after
from surehand.gateway.api.pending import describe_wait
from surehand.gateway.mcp.log_throttle import LogThrottle
from surehand.gateway.webhooks.signatures import sign_webhook
from surehand.gateway.webhooks.webhook import Webhook
from surehand.http.client import HttpClient
from surehand.http.settings import HttpSettings
from surehand.store.database import StoreError
from surehand.store.serialization import dump_json

if TYPE_CHECKING:
    from surehand.http.target import HttpTarget
    from surehand.runtime.pending.pending_call import PendingCall
    from surehand.runtime.runtime import Runtime
    from surehand.store.store import Store
    from surehand.store.tables.webhooks import TakenDelivery, WebhookTable

log = logging.getLogger("surehand")
ANNOUNCEMENT_TYPE = "call.pending"
REQUEST_TIMEOUT_SECONDS = 15.0
LEASE_SECONDS = 20.0
"""How long a process has for an attempt, which takes 15 seconds at most. If it dies, another one takes it then."""
MAX_DELIVERIES_AT_ONCE = 4
"""Requests to one webhook at the same time."""
WAITS_PER_READ = 100
POLL_SECONDS = 2.0
"""How often the store is read if nothing happens in this process: waits also begin in others."""
MAX_RETRY_AFTER_SECONDS = 3600.0
MAX_RESPONSE_BYTES = 64 << 10
_GONE = 410


class WebhookSender:
    """Announces the waits of a runtime that is open."""

    def __init__(self, runtime: Runtime, webhooks: Iterable[Webhook], public_url: str | None) -> None:
        self._runtime = runtime
        self._webhooks = tuple(webhooks)
        self._public_url = None if public_url is None else public_url.rstrip("/")

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Send while the context is entered. What was not acknowledged is sent again by the next process."""
        announced = [(each, each.target) for each in self._webhooks]
        async with AsyncExitStack() as stack:
            tasks: list[asyncio.Task[None]] = []
            for webhook, target in announced:
                if target is not None:
                    client = await stack.enter_async_context(HttpClient(_http_settings(target)))
                    announcer = _Announcer(self._runtime, webhook, target, client, self._public_url)
                    stack.callback(self._runtime.listen(announcer.hear))
                    tasks.append(asyncio.create_task(announcer.run(), name=f"gateway: webhook {webhook.name}"))
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                if tasks:
                    await asyncio.wait(tasks)


class _Announcer:
    """Sends waits to one webhook."""

    def __init__(
        self, runtime: Runtime, webhook: Webhook, target: HttpTarget, client: HttpClient, public_url: str | None
    ) -> None:
        self._runtime = runtime
        self._webhook = webhook
        self._target = target
        self._client = client
        self._public_url = public_url
        self._woken = asyncio.Event()
        self._log_throttle = LogThrottle()

    def hear(self, event: Event) -> None:
        """Look for new waits as soon as one begins in this process."""
        if isinstance(event, CallPending):
            self._woken.set()

    async def run(self) -> None:
        """Send what is due, then wait for more, until this is cancelled."""
        while True:
            self._woken.clear()
            pause = POLL_SECONDS
            store = self._runtime.store  # without a configured one, the first wait makes one in memory
            try:
                if store is not None and not store.database.is_read_only:
                    pause = await self._send_due(store)
            except StoreError as error:
                self._log_throttle.warn("store", "Webhooks cannot be sent now: %s", error)
            except Exception:
                log.exception("Webhook %s failed", self._webhook.name)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()

    async def _send_due(self, store: Store) -> float:
        """Send everything that is due; returns for how many seconds nothing will be, as far as is known."""
        table = store.webhooks
        name = self._webhook.name
        while True:
            await self._add_new_waits(table)
            taken = await table.take(name, limit=MAX_DELIVERIES_AT_ONCE, lease_seconds=LEASE_SECONDS)
            if not taken:
                break
            await asyncio.gather(*(self._attempt(table, each) for each in taken))
        seconds = await table.seconds_until_due(name)
        return POLL_SECONDS if seconds is None else min(seconds, POLL_SECONDS)

    async def _add_new_waits(self, table: WebhookTable) -> None:
        while True:
            waits = await table.new_waits(self._webhook.name, limit=WAITS_PER_READ)
            if waits:
                wanted = [(each, self._webhook.wants(each.tool, each.waiting_for)) for each in waits]
                await table.add(self._webhook.name, wanted)
            if len(waits) < WAITS_PER_READ:
                return

    async def _attempt(self, table: WebhookTable, delivery: TakenDelivery) -> None:
        """Send a wait once, and store what came of it."""
        name = self._webhook.name
        question = await self._open_question(delivery)
        if question is None:
            await table.end(name, delivery, "skipped")
            return
        error, retry_after = await self._send(question, delivery)
        if error is None:
            await table.end(name, delivery, "delivered")
            return
        delays = self._webhook.retry_delays
        host = self._target.host
        if delivery.attempts > len(delays) or retry_after is _NEVER:
            log.warning("Webhook %s (%s) was given up for call %s: %s", name, host, delivery.call_id, error)
            await table.end(name, delivery, "failed", error)
            return
        self._log_throttle.warn("failed", "Webhook %s (%s) fails, and is tried again: %s", name, host, error)
        delay = max(delays[delivery.attempts - 1], retry_after or 0.0)
        await table.postpone(name, delivery, delay, error)

    async def _open_question(self, delivery: TakenDelivery) -> PendingCall | None:
        """The question of a delivery; None if it was answered, or has expired, before it could be sent."""
        status = await self._runtime.status(delivery.call_id)
        question = None if status is None else status.question
        return question if question is not None and question.round == delivery.round else None

    async def _send(self, question: PendingCall, delivery: TakenDelivery) -> tuple[str | None, float | None]:
        """Send the message about a question; returns the error, and how long the receiver asks to wait."""
        webhook = self._webhook
        body = dump_json(announcement(webhook, question, self._public_url)).encode()
        message_id = webhook.message_id(delivery.call_id, delivery.round)
        headers = sign_webhook(body, webhook.secrets, message_id=message_id, timestamp=self._runtime.clock.time())
        try:
            response = await self._client.request("POST", self._target.url, headers=headers, body=body, truncate=True)
        except ToolError as error:
            return str(error), None
        if response.ok:
            return None, None
        if response.status == _GONE:  # the receiver says that it is not there any more
            return "HTTP 410", _NEVER
        retry_after = parse_retry_after(response.header("retry-after")) if response.header("retry-after") else None
        return f"HTTP {response.status}", None if retry_after is None else min(retry_after, MAX_RETRY_AFTER_SECONDS)


_NEVER = float("inf")


def _http_settings(target: HttpTarget) -> HttpSettings:
    """The developer wrote the URL down, so it may be on a private address; redirects are not followed."""
    return HttpSettings(
        endpoints=frozenset({(target.host, target.port)}),
        timeout=REQUEST_TIMEOUT_SECONDS,
        max_redirects=0,
        max_bytes=MAX_RESPONSE_BYTES,
        max_connections=MAX_DELIVERIES_AT_ONCE,
    )


def announcement(webhook: Webhook, question: PendingCall, public_url: str | None) -> dict[str, Any]:
    """The message about a wait. It is the same for every attempt, because nothing in an open question changes."""
    data = describe_wait(question)
    data["url"] = None if public_url is None else f"{public_url}/#/inbox/{quote(question.call_id, safe='')}"
    answer_path = f"/api/webhooks/{webhook.name}/answers"
    data["answer_url"] = f"{public_url}{answer_path}" if public_url is not None and webhook.people else None
    moment = datetime.fromtimestamp(question.created_at, UTC).isoformat().replace("+00:00", "Z")
    return {"type": ANNOUNCEMENT_TYPE, "timestamp": moment, "data": data}
