"""The tables `webhook_deliveries` and `webhook_messages`: waits that are sent out, and messages that came back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from surehand.store.database import Database, SqlValue, Statement
from surehand.store.queries import load_queries

EndState: TypeAlias = Literal["delivered", "failed", "skipped"]
"""How a delivery ends. It is skipped if the webhook does not want the wait, or if the wait was over before."""
MESSAGE_AGE_SECONDS = 900.0
"""How long a message is remembered: longer than its signature can be accepted, by clocks that differ."""
MAX_ERROR_LENGTH = 300

_SQL = load_queries("webhooks")


class NewWait(NamedTuple):
    """An open question that a webhook has no delivery of."""

    call_id: str
    round: int
    waiting_for: str
    tool: str


class TakenDelivery(NamedTuple):
    """A delivery that this process may attempt now."""

    call_id: str
    round: int
    attempts: int
    """How often it was taken, this time included."""


class WebhookSummary(NamedTuple):
    """The deliveries of a webhook."""

    name: str
    delivered: int
    waiting: int
    failed: int
    """Deliveries that were given up."""
    last_delivered_at: float | None
    failing_since: float | None
    """Since when the oldest delivery waits that has failed; None if none has."""
    last_error: str | None


class WebhookTable:
    """Adds, takes and ends deliveries; remembers messages."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def new_waits(self, webhook: str, *, limit: int) -> list[NewWait]:
        """The oldest open questions that the webhook has no delivery of."""
        rows = await self._database.read(_SQL["list_new_waits"], {"webhook": webhook, "limit": limit})
        return [NewWait(row["call_id"], row["round"], row["waiting_for"], row["tool"]) for row in rows]

    async def add(self, webhook: str, waits: Sequence[tuple[NewWait, bool]]) -> None:
        """Add deliveries, each with whether the webhook wants it: one that it does not want has ended at once."""
        statements = [
            Statement(
                _SQL["add_delivery"],
                {
                    "webhook": webhook,
                    "call_id": wait.call_id,
                    "round": wait.round,
                    "state": "waiting" if is_wanted else "skipped",
                },
            )
            for wait, is_wanted in waits
        ]
        await self._database.write(statements)

    async def take(self, webhook: str, *, limit: int, lease_seconds: float) -> list[TakenDelivery]:
        """Take due deliveries for this process alone; others may take them again when the lease is over."""
        params: dict[str, SqlValue] = {"webhook": webhook, "limit": limit, "lease": lease_seconds}
        [rows] = await self._database.write([Statement(_SQL["take_deliveries"], params)])
        return [TakenDelivery(row["call_id"], row["round"], row["attempts"]) for row in rows]

    async def end(self, webhook: str, delivery: TakenDelivery, state: EndState, error: str | None = None) -> None:
        """End a delivery, unless another process has taken it since."""
        params: dict[str, SqlValue] = {**_taken_params(webhook, delivery), "state": state, "error": _cut(error)}
        await self._database.write([Statement(_SQL["end_delivery"], params)])

    async def postpone(self, webhook: str, delivery: TakenDelivery, delay: float, error: str | None) -> None:
        """Let a delivery wait for its next attempt, unless another process has taken it since."""
        params: dict[str, SqlValue] = {**_taken_params(webhook, delivery), "delay": delay, "error": _cut(error)}
        await self._database.write([Statement(_SQL["postpone_delivery"], params)])

    async def seconds_until_due(self, webhook: str) -> float | None:
        """In how many seconds the next delivery is due; None if none waits."""
        [row] = await self._database.read(_SQL["find_next_due"], {"webhook": webhook})
        return None if row["seconds"] is None else max(float(row["seconds"]), 0.0)

    async def summaries(self) -> list[WebhookSummary]:
        """The deliveries of every webhook that has any, by name."""
        summaries = []
        for row in await self._database.read(_SQL["list_webhooks"]):
            errors = await self._database.read(_SQL["find_last_error"], {"webhook": row["webhook"]})
            summaries.append(
                WebhookSummary(
                    row["webhook"],
                    int(row["delivered"]),
                    int(row["waiting"]),
                    int(row["failed"]),
                    row["last_delivered_at"],
                    row["failing_since"],
                    errors[0]["error"] if errors else None,
                )
            )
        return summaries

    async def remember_message(self, webhook: str, message_id: str, digest: str) -> str | None:
        """Remember a message that arrived; returns the digest of the earlier one under its id, if there was one."""
        params: dict[str, SqlValue] = {"webhook": webhook, "message_id": message_id, "digest": digest}
        forget = Statement(_SQL["forget_messages"], {"age": MESSAGE_AGE_SECONDS})
        _, added = await self._database.write([forget, Statement(_SQL["remember_message"], params)])
        if added:
            return None
        rows = await self._database.read(_SQL["find_message"], {"webhook": webhook, "message_id": message_id})
        return str(rows[0]["digest"]) if rows else digest


def _taken_params(webhook: str, delivery: TakenDelivery) -> dict[str, SqlValue]:
    return {
        "webhook": webhook,
        "call_id": delivery.call_id,
        "round": delivery.round,
        "attempts": delivery.attempts,
    }


def _cut(error: str | None) -> str | None:
    """An error that both databases can store."""
    return None if error is None else error.replace("\0", "").encode(errors="replace").decode()[:MAX_ERROR_LENGTH]
