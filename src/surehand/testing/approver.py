"""Scripted approver: what the person says who is not there in a test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import repeat
from typing import Any, TypeAlias

from surehand.core.canonical import canonical
from surehand.runtime.approval import Approval
from surehand.runtime.waiting import WaitingCall
from surehand.testing.misses import Misses

Decision: TypeAlias = bool | str | Approval | None
Script: TypeAlias = Mapping[str, Any]
"""Decisions by tool glob: one for every call, or a list of them to be given in turn."""


class ScriptedApprover(Misses):
    """Gives its decisions in turn, and remembers what it was `asked`."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.asked: list[WaitingCall] = []
        self._script = {glob: _in_turn(decisions) for glob, decisions in script.items()}

    async def __call__(self, wait: WaitingCall) -> Approval | None:
        """Decide on one call; where nothing is scripted, the call fails and says so."""
        self.asked.append(wait)
        mine = next((turns for glob, turns in self._script.items() if fnmatchcase(wait.tool, glob)), iter(()))
        for decision in mine:
            return decision
        return self._miss(wait)

    def _miss(self, wait: WaitingCall) -> Approval:
        # An approver that raises leaves the call waiting, and a rejection may be what the test expects: so neither.
        told = f"No approval is scripted for {wait.tool}({canonical(wait.arguments)}), question {len(self.asked)}."
        self.missing.append(told)
        return Approval(False, reason=told, code="failed")


def approvals(*decisions: Decision | Script) -> ScriptedApprover:
    """An approver for `Runtime(approver=...)`: decisions in the order of the questions, or one mapping by tool glob."""
    match decisions:
        case (Mapping() as script,):
            return ScriptedApprover(script)
    return ScriptedApprover({"*": decisions})


def _in_turn(decisions: Any) -> Iterator[Approval | None]:
    if isinstance(decisions, (list, tuple)):
        return iter([Approval.of(decision) for decision in decisions])
    return repeat(Approval.of(decisions))
