"""Verdict: an answer to a wait."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from surehand.core.call import Principal
from surehand.core.canonical_json import json_digest
from surehand.core.errors import FailureCode
from surehand.core.outcome import Done, Failed, Outcome
from surehand.runtime.pending.approval import Approval
from surehand.store.serialization import deserialize_outcome, serialize_arguments, serialize_outcome
from surehand.store.tables.pending import PendingRound, PendingRow, RoundAnswer, compute_binding

AnswerKind: TypeAlias = Literal["approve", "reject", "settle", "cancel", "expire"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What was said, by whom, and what the call goes on or ends with."""

    kind: AnswerKind
    value: Done | Failed | None = None
    approval: Approval | None = None
    by: str | None = None
    code: FailureCode = "rejected"
    reason: str = ""
    round: int | None = None
    """To which question of the call; None for the one that is open."""
    outer_rounds: int = 0
    """Questions of the calls that wait for it: whoever answers has counted them, too."""

    @classmethod
    def from_round(cls, pending_round: PendingRound) -> Answer:
        """The answer that lets a call go on, as it was written down."""
        if pending_round.answer == "approve":
            told = json.loads(pending_round.answer_value or "{}")
            by = told.get("by")
            return cls("approve", approval=Approval(True, told.get("always", False), by=by), by=by)
        return cls("settle", value=deserialize_outcome(pending_round.answer_value or '{"done": null}'))

    def answer_digest(self) -> str:
        """What makes it the same answer when it is given again."""
        if self.kind == "approve":
            return json_digest(self.approval.arguments if self.approval else None)
        match self.value:
            case Done(data):
                return json_digest("done", data)
            case Failed(code, message):
                return json_digest("failed", code, message)
        return json_digest(None)

    def validate(self) -> None:
        """Raises for what cannot be written down or told from another answer."""
        self.answer_digest()
        self._serialize()

    def is_same_as(self, kind: str | None, answer_digest: str | None) -> bool:
        """Whether giving it again changes nothing."""
        return self.kind == kind and self.answer_digest() == answer_digest

    def is_for_round(self, round: int) -> bool:
        """Whether it may be the answer to that question."""
        return self.round in (None, round)

    def for_inner_call(self, pending_round: PendingRound) -> Answer:
        """The same for a call that another one waits for: its questions count on from the one's that waits."""
        if self.round is None:
            return self
        over = pending_round.round - 1
        return replace(self, round=self.round - over, outer_rounds=self.outer_rounds + over)

    def to_round_answer(self, row: PendingRow, pending_round: PendingRound, viewer: Principal) -> RoundAnswer:
        """The answer as it is written down, about the call with the arguments that it goes on with."""
        who, bound, kept = (viewer.user, viewer.session), pending_round.binding, self._serialize()
        if self.approval is not None and self.approval.arguments is not None:
            bound = compute_binding(row.call)
        return RoundAnswer(
            row.call.call_id, pending_round.round, self.kind, self.answer_digest(), kept, self.by, *who, bound
        )

    def apply_edited_arguments(self, row: PendingRow) -> PendingRow:
        """The call with the arguments that it was approved with."""
        if self.approval is None or self.approval.arguments is None:
            return row
        return row._replace(call=row.call._replace(arguments=serialize_arguments(self.approval.arguments)))

    @classmethod
    def refusal(
        cls, pending_round: PendingRound, kind: AnswerKind, code: FailureCode, message: str, by: str | None = None
    ) -> Answer:
        """It does not go on, and this is why."""
        if pending_round.waiting_for == "approval":
            return cls(kind, approval=Approval(False, reason=message, code=code), by=by)
        return cls(kind, value=Failed(code, message), by=by)

    def for_round(self, pending_round: PendingRound) -> Answer:
        """The same end for another wait."""
        if self.value is not None and isinstance(self.value, Failed):
            return self.refusal(pending_round, self.kind, self.value.code, self.value.message, self.by)
        assert self.approval is not None
        return self.refusal(pending_round, self.kind, self.approval.code, self.approval.reason, self.by)

    def _serialize(self) -> str | None:
        """What whoever goes on with the call needs; edited arguments are in the ledger."""
        if self.approval is not None:
            return json.dumps({"always": self.approval.always, "by": self.by})
        return serialize_outcome(self.value) if self.value is not None else None


@dataclass(slots=True)
class AnswerInProgress:
    """An answer that is being acted on here."""

    kind: str
    answer_digest: str
    round: int
    task: asyncio.Task[Outcome | None] | None = None
