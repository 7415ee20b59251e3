"""Scripted approver: what the person says who is not there in a test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import repeat
from typing import Any, TypeAlias

from surehand.core.canonical_json import canonical_json
from surehand.runtime.pending.approval import Approval
from surehand.runtime.pending.pending_call import PendingCall
from surehand.testing.unscripted import UnscriptedGuard

ScriptedDecision: TypeAlias = bool | str | Approval | None
DecisionsByTool: TypeAlias = Mapping[str, Any]
"""Decisions by tool glob: one for every call, or a list of them to be given in turn."""


class ScriptedApprover(UnscriptedGuard):
    """Gives its decisions in turn, and remembers what it was `asked`."""

    def __init__(self, decisions_by_tool: DecisionsByTool) -> None:
        super().__init__()
        self.asked: list[PendingCall] = []
        self._decisions_by_glob = {glob: _decision_iterator(decisions) for glob, decisions in decisions_by_tool.items()}

    async def __call__(self, pending: PendingCall) -> Approval | None:
        """Decide on one call; where nothing is scripted, the call fails and says so."""
        self.asked.append(pending)
        mine = next(
            (turns for glob, turns in self._decisions_by_glob.items() if fnmatchcase(pending.tool, glob)), iter(())
        )
        for decision in mine:
            return decision
        return self._report_unscripted(pending)

    def _report_unscripted(self, pending: PendingCall) -> Approval:
        # An approver that raises leaves the call waiting, and a rejection may be what the test expects: so neither.
        told = f"No approval is scripted for {pending.tool}({canonical_json(pending.arguments)}), question {len(self.asked)}."
        self.missing.append(told)
        return Approval(False, reason=told, code="failed")


def approvals(*decisions: ScriptedDecision | DecisionsByTool) -> ScriptedApprover:
    """An approver for `Runtime(approver=...)`: decisions in the order of the questions, or one mapping by tool glob."""
    match decisions:
        case (Mapping() as script,):
            return ScriptedApprover(script)
    return ScriptedApprover({"*": decisions})


def _decision_iterator(decisions: Any) -> Iterator[Approval | None]:
    if isinstance(decisions, (list, tuple)):
        return iter([Approval.from_decision(decision) for decision in decisions])
    return repeat(Approval.from_decision(decisions))
