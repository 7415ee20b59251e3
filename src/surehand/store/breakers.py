"""Breakers: providers that have failed of late, as all processes on a store know them. Normally there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from surehand.store import owners
from surehand.store.database import Row, Statement

if TYPE_CHECKING:
    from surehand.store.opening import AnyDatabase

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


class Health(NamedTuple):
    """What all processes together know of one provider."""

    failures: int = 0
    pause: float = 0.0
    """Seconds until it may be tried again."""
    probed: bool = False
    """Whether a call tries it right now."""


class Breakers:
    """A row for each provider that has failed since it last answered."""

    def __init__(self, database: AnyDatabase) -> None:
        self._database = database

    async def all(self) -> dict[str, Health]:
        """Every provider that is not well."""
        return {row["provider"]: _health(row) for row in await self._database.read(_ALL)}

    async def failed(self, provider: str, owner: str, pause: float) -> Health:
        """One more failure in a row."""
        params: dict[str, Any] = {"provider": provider, "owner": owner, "pause": pause}
        [[row]] = await self._database.write([Statement(_FAILED, params)])
        return _health(row)

    async def recovered(self, provider: str) -> None:
        """It answers."""
        await self._database.write([Statement(_RECOVERED, {"provider": provider})])

    async def probe(self, provider: str, owner: str, pause: float) -> Health | None:
        """Be the one whose call tries it, which gives None; else how things stand."""
        whose = {"provider": provider, "owner": owner}
        asked = Statement(_PROBE, {**whose, "lease": owners.LEASE, "pause": pause})
        mine, rows = await self._database.write([asked, Statement(_KNOWN, {"provider": provider})])
        if mine:
            return None
        return _health(rows[0]) if rows else Health()

    async def probe_lost(self, provider: str, owner: str) -> None:
        """The call that tried it came to nothing: another may try."""
        await self._database.write([Statement(_LOST, {"provider": provider, "owner": owner})])

    async def forget(self, age: float) -> None:
        """Make room: failures of long ago say nothing of today."""
        await self._database.write([Statement(_FORGET, {"age": age})])


def renewed(owner: str) -> Statement:
    """A sign of life for what this owner tries."""
    return Statement(_RENEW, {"owner": owner, "lease": owners.LEASE})


def _health(row: Row) -> Health:
    return Health(int(row["failures"]), float(row["pause"]), bool(row["probed"]))
