"""Breakers: providers that have failed of late, as all processes on a store know them. Normally there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from surehand.store.database import Row, Statement
from surehand.store.tables import owners

if TYPE_CHECKING:
    from surehand.store.migrations import AnyDatabase

_COLUMNS = """provider, failures, open_until - {now} AS pause,
    probed_by IS NOT NULL AND coalesce(probe_until, 0) > {now} AS probed"""
_ALL = f"SELECT {_COLUMNS} FROM breakers"
_FAILED = f"""INSERT INTO breakers (provider, failures, open_until) VALUES (:provider, 1, {{now}} + :pause)
    ON CONFLICT (provider) DO UPDATE SET failures = breakers.failures + 1, open_until = excluded.open_until,
    probed_by = CASE WHEN breakers.probed_by <> :owner THEN breakers.probed_by END
    RETURNING {_COLUMNS}"""
_RECOVERED = "DELETE FROM breakers WHERE provider = :provider"
# Where the clock was set back, a provider could else be down until it has caught up.
_PROBE = """UPDATE breakers SET probed_by = :owner, probe_until = {now} + :lease
    WHERE provider = :provider AND (open_until <= {now} OR open_until > {now} + :pause)
    AND (probed_by IS NULL OR probed_by = :owner OR coalesce(probe_until, 0) <= {now}) RETURNING 1 AS mine"""
_KNOWN = f"{_ALL} WHERE provider = :provider"
_LOST = "UPDATE breakers SET probed_by = NULL WHERE provider = :provider AND probed_by = :owner"
_RENEW = "UPDATE breakers SET probe_until = {now} + :lease WHERE probed_by = :owner"
_FORGET = "DELETE FROM breakers WHERE open_until < {now} - :age"


class BreakerRow(NamedTuple):
    """What all processes together know of one provider."""

    failures: int = 0
    retry_in_seconds: float = 0.0
    """Seconds until it may be tried again."""
    is_probed: bool = False
    """Whether a call tries it right now."""


class BreakerTable:
    """A row for each provider that has failed since it last answered."""

    def __init__(self, database: AnyDatabase) -> None:
        self._database = database

    async def all(self) -> dict[str, BreakerRow]:
        """Every provider that is not well."""
        return {row["provider"]: _row_from_columns(row) for row in await self._database.read(_ALL)}

    async def record_failure(self, provider: str, owner: str, pause_seconds: float) -> BreakerRow:
        """One more failure in a row."""
        params: dict[str, Any] = {"provider": provider, "owner": owner, "pause": pause_seconds}
        [[row]] = await self._database.write([Statement(_FAILED, params)])
        return _row_from_columns(row)

    async def record_recovery(self, provider: str) -> None:
        """It answers."""
        await self._database.write([Statement(_RECOVERED, {"provider": provider})])

    async def claim_probe(self, provider: str, owner: str, pause_seconds: float) -> BreakerRow | None:
        """Be the one whose call tries it, which gives None; else how things stand."""
        whose = {"provider": provider, "owner": owner}
        asked = Statement(_PROBE, {**whose, "lease": owners.LEASE_SECONDS, "pause": pause_seconds})
        mine, rows = await self._database.write([asked, Statement(_KNOWN, {"provider": provider})])
        if mine:
            return None
        return _row_from_columns(rows[0]) if rows else BreakerRow()

    async def release_probe(self, provider: str, owner: str) -> None:
        """The call that tried it came to nothing: another may try."""
        await self._database.write([Statement(_LOST, {"provider": provider, "owner": owner})])

    async def delete_older_than(self, age_seconds: float) -> None:
        """Make room: failures of long ago say nothing of today."""
        await self._database.write([Statement(_FORGET, {"age": age_seconds})])


def renew_probe_statement(owner: str) -> Statement:
    """A sign of life for what this owner tries."""
    return Statement(_RENEW, {"owner": owner, "lease": owners.LEASE_SECONDS})


def _row_from_columns(row: Row) -> BreakerRow:
    return BreakerRow(int(row["failures"]), float(row["pause"]), bool(row["probed"]))
