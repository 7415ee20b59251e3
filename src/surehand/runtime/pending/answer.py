"""Answer: a decision or value given to a pending call, and the answers that this process is applying now."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from surehand.core.call import Principal
from surehand.core.canonical_json import json_digest
from surehand.core.errors import FailureCode
from surehand.core.outcome import Done, Failed, Outcome
from surehand.runtime.invocation.approval import Approval
from surehand.runtime.invocation.invocation import Invocation
from surehand.store.serialization import deserialize_outcome, serialize_arguments, serialize_outcome
from surehand.store.tables.pending import PendingRound, PendingRow, RoundAnswer, compute_answer_binding

AnswerKind: TypeAlias = Literal["approve", "reject", "settle", "cancel", "expire"]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a pending call: its kind, who gave it, and the value or approval to continue or end with."""

    kind: AnswerKind
    value: Done | Failed | None = None
    approval: Approval | None = None
    by: str | None = None
    code: FailureCode = "rejected"
    reason: str = ""
    round: int | None = None
    """The number of the question it answers; None for the open one."""
    outer_rounds: int = 0
    """Questions of outer calls that follow this one; the person who answers has counted them too."""

    @classmethod
    def from_round(cls, pending_round: PendingRound) -> Answer:
        """Restore the stored answer that lets a call continue."""
        if pending_round.answer == "approve":
            stored = json.loads(pending_round.answer_value or "{}")
            by = stored.get("by")
            return cls("approve", approval=Approval(True, stored.get("always", False), by=by), by=by)
        return cls("settle", value=deserialize_outcome(pending_round.answer_value or '{"done": null}'))

    def answer_digest(self) -> str:
        """Digest of the content: two answers with the same kind and digest are the same answer."""
        if self.kind == "approve":
            return json_digest(None if self.approval is None else self.approval.arguments)
        if self.kind == "reject":  # whatever its reason is
            return json_digest(None)
        match self.value:
            case Done(data):
                return json_digest("done", data)
            case Failed(code, message):
                return json_digest("failed", code, message)
        return json_digest(None)

    def validate(self) -> None:
        """Raise if the answer cannot be stored or compared."""
        self.answer_digest()
        self._serialize()

    def is_same_as(self, kind: str | None, answer_digest: str | None) -> bool:
        """Whether this repeats an answer that was given before."""
        return self.kind == kind and self.answer_digest() == answer_digest

    def is_for_round(self, round: int) -> bool:
        """Whether it may answer the question with this number."""
        return self.round in (None, round)

    def as_rejection_of(self, pending_round: PendingRound) -> Answer:
        """This rejection, as it ends a call that waits for a result or for input."""
        if self.kind != "reject" or pending_round.waiting_for == "approval" or self.approval is None:
            return self
        reason = f": {self.reason}" if self.reason else ""
        message = f"the person who was asked rejected the question{reason}. Do not ask again unless asked to."
        return replace(self, value=Failed("rejected", message), approval=None)

    def for_inner_call(self, pending_round: PendingRound) -> Answer:
        """The same answer for the inner call, whose questions are numbered after those of the outer call."""
        if self.round is None:
            return self
        offset = pending_round.round - 1
        return replace(self, round=self.round - offset, outer_rounds=self.outer_rounds + offset)

    def to_round_answer(self, row: PendingRow, pending_round: PendingRound, viewer: Principal) -> RoundAnswer:
        """The answer as it is stored, bound to the call with the arguments that it continues with."""
        binding = pending_round.binding
        if self.approval is not None and self.approval.arguments is not None:
            binding = compute_answer_binding(row.call)
        return RoundAnswer(
            row.call.call_id,
            pending_round.round,
            self.kind,
            self.answer_digest(),
            self._serialize(),
            self.by,
            viewer.user,
            viewer.session,
            binding,
        )

    def apply_edited_arguments(self, row: PendingRow) -> PendingRow:
        """The row with the arguments that a person edited, if any."""
        if self.approval is None or self.approval.arguments is None:
            return row
        return row._replace(call=row.call._replace(arguments=serialize_arguments(self.approval.arguments)))

    @classmethod
    def refusal(
        cls, pending_round: PendingRound, kind: AnswerKind, code: FailureCode, message: str, by: str | None = None
    ) -> Answer:
        """An answer that ends the call with a failure, whatever the question was."""
        if pending_round.waiting_for == "approval":
            return cls(kind, approval=Approval(False, reason=message, code=code), by=by)
        return cls(kind, value=Failed(code, message), by=by)

    def for_round(self, pending_round: PendingRound) -> Answer:
        """The same refusal for another question."""
        if self.value is not None and isinstance(self.value, Failed):
            return self.refusal(pending_round, self.kind, self.value.code, self.value.message, self.by)
        assert self.approval is not None
        return self.refusal(pending_round, self.kind, self.approval.code, self.approval.reason, self.by)

    def _serialize(self) -> str | None:
        """The JSON that the runtime which resumes the call needs; edited arguments are in the ledger."""
        if self.approval is not None:
            return json.dumps({"always": self.approval.always, "by": self.by})
        return serialize_outcome(self.value) if self.value is not None else None


@dataclass(slots=True)
class AnswerInProgress:
    """An answer that this process is applying now."""

    kind: str
    answer_digest: str
    round: int
    task: asyncio.Task[Outcome | None] | None = None
    on_recorded: Callable[[Invocation], None] | None = None
    """Called once an answer that ends the call is committed with its outcome."""
