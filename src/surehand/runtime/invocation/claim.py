"""Claim: whether this process owns a call in the ledger, and how far the call has come there."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from surehand.store.tables.pending import RoundAnswer


class ClaimState(Enum):
    """How far a call has come in the ledger, as this invocation knows."""

    UNCLAIMED = auto()
    CLAIMING = auto()
    """The claim is being written."""
    CLAIMED = auto()
    """The ledger records this runtime as the one that runs the call."""
    RUNNING = auto()
    """Claimed, and the handler is running now."""
    ELSEWHERE = auto()
    """This invocation does not run the handler: the same call runs already, or is resumed later."""
    RECORDING = auto()
    """The outcome is being written."""
    RECORDED = auto()
    """The outcome of this invocation was given to the ledger."""
    LOST_RACE = auto()
    """Another invocation or process was first with the outcome, or with the answer."""
    FOUND_RECORDED = auto()
    """This invocation found the outcome of another one, and returns it."""


_BUSY_STATES = frozenset({ClaimState.CLAIMING, ClaimState.CLAIMED, ClaimState.RUNNING, ClaimState.RECORDING})
_RECORDED_STATES = frozenset(
    {ClaimState.RECORDING, ClaimState.RECORDED, ClaimState.LOST_RACE, ClaimState.FOUND_RECORDED}
)
_OTHER_PASS_STATES = frozenset({ClaimState.ELSEWHERE, ClaimState.CLAIMING, ClaimState.RUNNING})
_HELD_STATES = frozenset({ClaimState.CLAIMED, ClaimState.RUNNING})


class Claim(NamedTuple):
    """The claim of one invocation. It does not change: a new one takes its place."""

    state: ClaimState = ClaimState.UNCLAIMED
    fence: int | None = None
    """The fencing token under which this runtime owns the call in the ledger."""
    answer: RoundAnswer | None = None
    """In place of a fence: the answer that ends the call, which is written in one transaction with the outcome."""

    @property
    def is_busy(self) -> bool:
        """Whether the claim is held, or it or the outcome is being written: no other invocation may claim the call."""
        return self.state in _BUSY_STATES

    @property
    def is_held(self) -> bool:
        """Whether the ledger records this runtime as the one that runs the call."""
        return self.state in _HELD_STATES

    @property
    def is_running(self) -> bool:
        """Whether the handler of this invocation is running now."""
        return self.state is ClaimState.RUNNING

    @property
    def belongs_to_other_pass(self) -> bool:
        """Whether the handler runs in another pass of the call, so that this pass has nothing to store."""
        return self.state in _OTHER_PASS_STATES

    @property
    def is_recorded(self) -> bool:
        """Whether the outcome of the call was given to the ledger, by this invocation or by another one."""
        return self.state in _RECORDED_STATES

    @property
    def is_lost(self) -> bool:
        """Whether another invocation or process was first."""
        return self.state is ClaimState.LOST_RACE

    def to(self, state: ClaimState) -> Claim:
        """The same claim in another state."""
        return Claim(state, self.fence, self.answer)

    def with_fence(self, fence: int | None) -> Claim:
        """The same claim with another fence."""
        return Claim(self.state, fence, self.answer)

    def released(self) -> Claim:
        """The claim once the call waits again, and nothing in the ledger is this runtime's any more."""
        return Claim() if self.is_busy else Claim(self.state)


NO_CLAIM = Claim()
