"""`approvals(...)`: a scripted approver that takes the place of a person in a test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import repeat
from typing import Any, TypeAlias

from surehand.core.canonical_json import canonical_json
from surehand.runtime.invocation.approval import Approval
from surehand.runtime.pending.pending_call import PendingCall
from surehand.testing.unscripted import UnscriptedGuard

ScriptedDecision: TypeAlias = bool | str | Approval | None
DecisionsByTool: TypeAlias = Mapping[str, Any]
"""Decisions by tool glob: one for every call, or a list to use in order."""


class ScriptedApprover(UnscriptedGuard):
    """Gives scripted decisions in order, and records the calls it was `asked` about."""

    def __init__(self, decisions_by_tool: DecisionsByTool) -> None:
        super().__init__()
        self.asked: list[PendingCall] = []
        self._decisions_by_glob = {glob: _decision_iterator(decisions) for glob, decisions in decisions_by_tool.items()}

    async def __call__(self, pending: PendingCall) -> Approval | None:
        """Decide on one call; a call without a scripted decision fails and says so."""
        self.asked.append(pending)
        for glob, decisions in self._decisions_by_glob.items():
            if fnmatchcase(pending.tool, glob):
                for decision in decisions:  # takes the next one, if any is left
                    return decision
                break
        return self._report_unscripted(pending)

    def _report_unscripted(self, pending: PendingCall) -> Approval:
        # An approver that raises leaves the call pending, and a test may expect a rejection: so the call fails.
        call = f"{pending.tool}({canonical_json(pending.arguments)})"
        message = f"No approval is scripted for {call}, question {len(self.asked)}."
        self.missing.append(message)
        return Approval(False, reason=message, code="failed")


def approvals(*decisions: ScriptedDecision | DecisionsByTool) -> ScriptedApprover:
    """Build an approver for `Runtime(approver=...)`: decisions in order of the questions, or a mapping by tool glob."""
    match decisions:
        case (Mapping() as decisions_by_tool,):
            return ScriptedApprover(decisions_by_tool)
    return ScriptedApprover({"*": decisions})


def _decision_iterator(decisions: Any) -> Iterator[Approval | None]:
    if isinstance(decisions, (list, tuple)):
        return iter([Approval.from_decision(decision) for decision in decisions])
    return repeat(Approval.from_decision(decisions))
