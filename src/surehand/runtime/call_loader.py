"""Call loader: builds what calls need when the first one is made: the stages, and the services of stored calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surehand.runtime.agent_inbox import AgentInbox
    from surehand.runtime.durability.ledger import Ledger
    from surehand.runtime.durability.write_retry import WriteRetry
    from surehand.runtime.pending.answers import Answers
    from surehand.runtime.pending.call_resumer import CallResumer
    from surehand.runtime.pending.cancelled_runs import CancelledRuns
    from surehand.runtime.pending.local_calls import ExpiryTimer, LocalPendingCalls
    from surehand.runtime.pending.pending_calls import PendingCalls
    from surehand.runtime.pending.restored_call import RestoredCalls
    from surehand.runtime.pending.result import CallResults
    from surehand.runtime.pending.status import CallStatuses
    from surehand.runtime.pipeline.pipeline import CallStages
    from surehand.runtime.pipeline.refused_calls import RefusedCalls


@dataclass(frozen=True, slots=True)
class AnswerServices:
    """What a scope does with calls that wait or have ended."""

    answers: Answers
    pending_calls: PendingCalls
    statuses: CallStatuses
    results: CallResults


@dataclass(frozen=True, slots=True)
class CallServices:
    """The stages, and what scopes and the store maintenance do with stored calls."""

    stages: CallStages
    refused_calls: RefusedCalls
    answering: AnswerServices
    local: LocalPendingCalls
    call_resumer: CallResumer
    cancelled_runs: CancelledRuns
    restored_calls: RestoredCalls
    expiry_timer: ExpiryTimer
    ledger: Ledger
    write_retry: WriteRetry
    agent_inbox: AgentInbox


class CallLoader:
    """Builds the call services once, on first use.

    Their modules import all stages and the tables of the store. A program that only defines tools, or opens a runtime,
    needs neither: `from surehand import tool, Runtime` stays as light as importing pydantic.
    """

    def __init__(self, build: Callable[[], CallServices]) -> None:
        self._build = build
        self._loaded: CallServices | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether a call has needed them yet."""
        return self._loaded is not None

    def load(self) -> CallServices:
        """The call services."""
        if self._loaded is None:
            self._loaded = self._build()
        return self._loaded
