"""The table `breakers`: providers that failed recently, shared by all processes. Usually it is empty."""

from __future__ import annotations

from typing import Any, NamedTuple

from surehand.store.database import Database, Row, Statement
from surehand.store.queries import load_queries
from surehand.store.tables import owners

_SQL = load_queries("breakers")


class BreakerRow(NamedTuple):
    """The failures of one provider, as seen by all processes together."""

    failures: int = 0
    retry_in_seconds: float = 0.0
    is_probed: bool = False
    """Whether a call is trying the provider right now."""


class BreakerTable:
    """A row for each provider that has failed since its last success."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> dict[str, BreakerRow]:
        """Return every provider that has failed."""
        return {row["provider"]: _row_from_columns(row) for row in await self._database.read(_SQL["list_breakers"])}

    async def record_failure(self, provider: str, owner: str, pause_seconds: float) -> BreakerRow:
        """Count one more failure in a row, and block the provider for a while."""
        params: dict[str, Any] = {"provider": provider, "owner": owner, "pause": pause_seconds}
        [[row]] = await self._database.write([Statement(_SQL["record_failure"], params)])
        return _row_from_columns(row)

    async def record_recovery(self, provider: str) -> None:
        """Delete the failures of a provider that has answered."""
        await self._database.write([Statement(_SQL["record_recovery"], {"provider": provider})])

    async def claim_probe(self, provider: str, owner: str, pause_seconds: float) -> BreakerRow | None:
        """Claim the one call that may try the provider: returns None if it was claimed, else the row."""
        params: dict[str, Any] = {
            "provider": provider,
            "owner": owner,
            "lease": owners.LEASE_SECONDS,
            "pause": pause_seconds,
        }
        claim = Statement(_SQL["claim_probe"], params)
        claimed, rows = await self._database.write([claim, Statement(_SQL["find_breaker"], {"provider": provider})])
        if claimed:
            return None
        return _row_from_columns(rows[0]) if rows else BreakerRow()

    async def release_probe(self, provider: str, owner: str) -> None:
        """Release a probe whose call had no result, so that another call may try."""
        await self._database.write([Statement(_SQL["release_probe"], {"provider": provider, "owner": owner})])

    async def delete_older_than(self, age_seconds: float) -> None:
        """Delete failures that are too old to say anything about the provider."""
        await self._database.write([Statement(_SQL["delete_old_breakers"], {"age": age_seconds})])


def renew_probe_statement(owner: str) -> Statement:
    """Renew the leases of all probes of an owner."""
    return Statement(_SQL["renew_probes"], {"owner": owner, "lease": owners.LEASE_SECONDS})


def _row_from_columns(row: Row) -> BreakerRow:
    return BreakerRow(int(row["failures"]), float(row["pause"]), bool(row["probed"]))
