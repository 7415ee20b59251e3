"""Ledger: which calls have happened, and how they ended. An outcome is written once."""

from __future__ import annotations

from dataclasses import dataclass

from toolwright.core.outcome import Failed, Outcome

KEPT = 10_000


@dataclass(slots=True)
class _Record:
    fingerprint: str
    outcome: Outcome | None = None
    claimed: bool = False


class Ledger:
    """Calls by their id, in memory: the last ten thousand that ended."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}
        self._ended: dict[str, None] = {}

    def opened(self, call_id: str, fingerprint: str) -> bool:
        """Remember what an id stands for; false if it stands for another call."""
        return self._records.setdefault(call_id, _Record(fingerprint)).fingerprint == fingerprint

    def outcome(self, call_id: str) -> Outcome | None:
        """How a call ended."""
        record = self._records.get(call_id)
        return record.outcome if record else None

    def claim(self, call_id: str) -> bool:
        """True for the one who may run the call."""
        record = self._records.get(call_id)
        if record is None:
            return True
        if record.claimed or record.outcome is not None:
            return False
        record.claimed = True
        return True

    def close(self, call_id: str, outcome: Outcome) -> Outcome:
        """Write the outcome, or give the one that was written before."""
        record = self._records.get(call_id)
        if record is None:
            return outcome
        if record.outcome is None:
            record.outcome = outcome
            self._ended[call_id] = None
            while len(self._ended) > KEPT:
                oldest = next(iter(self._ended))
                del self._ended[oldest], self._records[oldest]
        return record.outcome

    def release(self, call_id: str) -> None:
        """Nothing has happened: the call may be tried again under the same id."""
        if (record := self._records.get(call_id)) and record.outcome is None:
            record.claimed = False


def happened(outcome: Outcome) -> bool:
    """Whether an outcome says that something may have been done."""
    return not isinstance(outcome, Failed) or outcome.executed
