"""Ledger: which calls have happened, and how they ended. An outcome is written once."""

from __future__ import annotations

from dataclasses import dataclass

from toolwright.core.outcome import Done, Failed, Outcome

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
        self._idle: dict[str, None] = {}
        """Ids of calls that came to nothing: as many are remembered as of those that ended."""

    def opened(self, call_id: str, fingerprint: str) -> bool:
        """Remember what an id stands for; false if it stands for another call."""
        return self._records.setdefault(call_id, _Record(fingerprint)).fingerprint == fingerprint

    def outcome(self, call_id: str) -> Outcome | None:
        """How a call ended."""
        record = self._records.get(call_id)
        return _own(record.outcome) if record and record.outcome is not None else None

    def claim(self, call_id: str) -> bool:
        """True for the one who may run the call."""
        record = self._records.get(call_id)
        if record is None:
            return True
        if record.claimed or record.outcome is not None:
            return False
        record.claimed = True
        self._idle.pop(call_id, None)
        return True

    def close(self, call_id: str, outcome: Outcome) -> Outcome:
        """Write the outcome, or give the one that was written before."""
        record = self._records.get(call_id)
        if record is None:
            return outcome
        if record.outcome is not None:
            return _own(record.outcome)
        record.outcome = _own(outcome)  # whatever its caller does to the data that it is given
        self._idle.pop(call_id, None)
        self._ended[call_id] = None
        while len(self._ended) > KEPT:
            oldest = next(iter(self._ended))
            del self._ended[oldest], self._records[oldest]
        return outcome

    def nothing_came(self, call_id: str) -> None:
        """The call ended without effect; its id may be forgotten once there are too many such."""
        record = self._records.get(call_id)
        if record is None or record.claimed or record.outcome is not None:
            return
        self._idle[call_id] = None
        while len(self._idle) > KEPT:
            oldest = next(iter(self._idle))
            del self._idle[oldest], self._records[oldest]

    def release(self, call_id: str) -> None:
        """Nothing has happened: the call may be tried again under the same id."""
        if (record := self._records.get(call_id)) and record.outcome is None:
            record.claimed = False


def _own(outcome: Outcome) -> Outcome:
    return outcome.apart() if isinstance(outcome, Done) else outcome.evolve()


def happened(outcome: Outcome) -> bool:
    """Whether an outcome says that something may have been done."""
    return not isinstance(outcome, Failed) or outcome.executed
