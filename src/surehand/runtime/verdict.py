"""Verdict: an answer to a wait."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from surehand.core.call import Principal
from surehand.core.canonical import digest
from surehand.core.errors import Code
from surehand.core.outcome import Done, Failed, Outcome
from surehand.runtime.approval import Approval
from surehand.store.outcomes import arguments_text, outcome_of, outcome_text
from surehand.store.pending import Answered, Held, Round, binding_of

Answer: TypeAlias = Literal["approve", "reject", "settle", "cancel", "expire"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was said, by whom, and what the call goes on or ends with."""

    answer: Answer
    value: Done | Failed | None = None
    approval: Approval | None = None
    by: str | None = None
    code: Code = "rejected"
    reason: str = ""
    round: int | None = None
    """To which question of the call; None for the one that is open."""
    before: int = 0
    """Questions of the calls that wait for it: whoever answers has counted them, too."""

    @classmethod
    def kept(cls, round: Round) -> Verdict:
        """The answer that lets a call go on, as it was written down."""
        if round.answer == "approve":
            told = json.loads(round.value or "{}")
            by = told.get("by")
            return cls("approve", approval=Approval(True, told.get("always", False), by=by), by=by)
        return cls("settle", value=outcome_of(round.value or '{"done": null}'))

    def weight(self) -> str:
        """What makes it the same answer when it is given again."""
        if self.answer == "approve":
            return digest(self.approval.arguments if self.approval else None)
        match self.value:
            case Done(data):
                return digest("done", data)
            case Failed(code, message):
                return digest("failed", code, message)
        return digest(None)

    def check(self) -> None:
        """Raises for what cannot be written down or told from another answer."""
        self.weight()
        self._kept()

    def same_as(self, answer: str | None, weight: str | None) -> bool:
        """Whether giving it again changes nothing."""
        return self.answer == answer and self.weight() == weight

    def is_to(self, round: int) -> bool:
        """Whether it may be the answer to that question."""
        return self.round in (None, round)

    def within(self, wait: Round) -> Verdict:
        """The same for a call that another one waits for: its questions count on from the one's that waits."""
        if self.round is None:
            return self
        over = wait.round - 1
        return replace(self, round=self.round - over, before=self.before + over)

    def to(self, held: Held, wait: Round, viewer: Principal) -> Answered:
        """The answer as it is written down, about the call with the arguments that it goes on with."""
        who, bound, kept = (viewer.user, viewer.session), wait.binding, self._kept()
        if self.approval is not None and self.approval.arguments is not None:
            bound = binding_of(held.call)
        return Answered(held.call.call_id, wait.round, self.answer, self.weight(), kept, self.by, *who, bound)

    def edited(self, held: Held) -> Held:
        """The call with the arguments that it was approved with."""
        if self.approval is None or self.approval.arguments is None:
            return held
        return held._replace(call=held.call._replace(arguments=arguments_text(self.approval.arguments)))

    @classmethod
    def ending(cls, wait: Round, answer: Answer, code: Code, message: str, by: str | None = None) -> Verdict:
        """It does not go on, and this is why."""
        if wait.waiting_for == "approval":
            return cls(answer, approval=Approval(False, reason=message, code=code), by=by)
        return cls(answer, value=Failed(code, message), by=by)

    def on(self, round: Round) -> Verdict:
        """The same end for another wait."""
        if self.value is not None and isinstance(self.value, Failed):
            return self.ending(round, self.answer, self.value.code, self.value.message, self.by)
        assert self.approval is not None
        return self.ending(round, self.answer, self.approval.code, self.approval.reason, self.by)

    def _kept(self) -> str | None:
        """What whoever goes on with the call needs; edited arguments are in the ledger."""
        if self.approval is not None:
            return json.dumps({"always": self.approval.always, "by": self.by})
        return outcome_text(self.value) if self.value is not None else None


@dataclass(slots=True)
class Going:
    """An answer that is being acted on here."""

    answer: str
    weight: str
    round: int
    task: asyncio.Task[Outcome | None] | None = None
