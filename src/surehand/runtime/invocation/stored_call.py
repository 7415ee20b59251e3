"""Stored call: what the store has of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from surehand.store.database import Statement
    from surehand.store.tables.ledger import LedgerRow


class EndTemplate(Protocol):
    """Prepared rows for the end of a plain durable call."""

    def end_statements(self, call_id: str, outcome: str, code: str, latency_ms: float) -> list[Statement]: ...


class StoredCall(NamedTuple):
    """What `durability` has written of one call, or will write. It does not change: a new one takes its place."""

    row: LedgerRow | None = None
    """The call's row in the ledger, once there is one."""
    end_template: EndTemplate | None = None
    """Instead of a row: prepared rows for the end of a plain durable call."""
    repeat_key: str | None = None
    """What the call is recognised by if it is repeated, once that was computed."""


NOT_STORED = StoredCall()
