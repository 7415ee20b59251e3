"""Repeated calls: recognises a call that was made before in its session and still waits, or whose effect is unknown.

The repetition follows the first call: it waits for it as an outer call waits for a nested one, and ends with the same
outcome. The stages `follow`, `park` and `intent` ask here; the store decides, so that it holds between processes too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from surehand.core.outcome import Pending, WaitingFor
from surehand.runtime.invocation.invocation import Invocation
from surehand.runtime.invocation.json_arguments import call_fingerprint
from surehand.runtime.runtime_store import RuntimeStore
from surehand.store.database import Statement
from surehand.store.errors import UnstorableValue
from surehand.store.tables import ledger as ledger_table

FOLLOWS_KEY = "follows"
"""The key in the request of a call that follows another one; its value is the id of that call."""


@dataclass(frozen=True, slots=True)
class FirstCall:
    """The call that a repetition follows."""

    call_id: str
    state: str
    waiting_for: WaitingFor

    def to_pending(self, tool: str, *, reply_timeout: float | None = None) -> Pending:
        """The outcome of the repetition, which tells the model that it is one."""
        if self.state == "unknown":
            problem = f"It is not known whether the same call of {tool}, {self.call_id}, has happened."
        elif self.state in ("ready", "taken"):
            problem = f"The same call of {tool}, {self.call_id}, was answered and goes on."
        else:
            problem = f"The same call of {tool}, {self.call_id}, already waits for {self.waiting_for}."
        message = f"{problem} This call follows it, runs nothing, and ends with the same outcome."
        request = {FOLLOWS_KEY: self.call_id}
        return Pending(self.waiting_for, self.call_id, message, request, reply_timeout=reply_timeout)


def is_following(pending: Pending) -> bool:
    """Whether the Pending is that of a call which follows another one."""
    return isinstance(pending.request, dict) and FOLLOWS_KEY in pending.request and bool(pending.call_id)


class RepeatedCalls:
    """Finds the first of several equal calls."""

    def __init__(self, store: RuntimeStore) -> None:
        self._store = store

    def key_of(self, invocation: Invocation) -> str | None:
        """What the call is recognised by; None if it is never merged: without a session, or with an id of a program's.

        The calls of an agent's runs have ids too, which the agent derives. They are compared with each other.
        """
        is_of_agent = invocation.scope.scope_name is not None
        is_first_attempt = not (invocation.is_resumed or invocation.resumption.round)
        is_compared = is_first_attempt and (is_of_agent or not invocation.has_given_id)
        if invocation.principal.session is None or not is_compared:
            return None
        if invocation.stored.repeat_key is not None:
            return invocation.stored.repeat_key
        try:
            fingerprint = call_fingerprint(invocation)
        except UnstorableValue:  # a call that cannot be compared cannot be stored either
            return None
        key = f"{fingerprint} {invocation.scope.scope_name}" if is_of_agent else fingerprint
        invocation.note_repeat_key(key)
        siblings = invocation.request.siblings
        if siblings is not None:
            siblings.setdefault(key, []).append(invocation.id)
        return key

    def guard_statements(self, invocation: Invocation, key: str, *, locks: bool) -> list[Statement]:
        """Statements that undo the transaction if the call is a repetition.

        Args:
            locks: wait for another process that stores an equal call at the same moment.
        """
        return ledger_table.require_first_statements(
            key, siblings=_sibling_ids(invocation, key), owner=self._store.owner_id, locks=locks
        )

    async def find_first(self, invocation: Invocation) -> FirstCall | None:
        """The call that this one repeats; None if there is none that waits, or whose effect is unknown."""
        key = self.key_of(invocation)
        if key is None:
            return None
        found = await self._find(invocation, key)
        # An equal call of another process that died a moment ago still counts as running.
        if found is not None and found.state == "running":
            await self._store.recover_dead_runtimes()
            found = await self._find(invocation, key)  # in any case: the maintenance may have been faster
        siblings = invocation.request.siblings
        while found is not None and siblings is not None and found.call_id in siblings[key]:
            found = await self._find(invocation, key)  # a call that is made together with this one follows it already
        if found is None or found.state == "running":
            return None
        if siblings is not None:
            siblings[key].append(found.call_id)
        return found

    async def _find(self, invocation: Invocation, key: str) -> FirstCall | None:
        store = await self._store.open()
        siblings = _sibling_ids(invocation, key)
        query = ledger_table.find_first_statement(key, siblings=siblings, owner=self._store.owner_id)
        rows = await store.database.quick_read(query.sql, query.params)
        if not rows:
            return None
        call_id, state, waiting_for = rows[0]
        return FirstCall(call_id, state, cast(WaitingFor, waiting_for or "result"))


def _sibling_ids(invocation: Invocation, key: str) -> str:
    """The ids of equal calls of the same `call_many` or handler, which are never merged, and of those they follow."""
    return " ".join((invocation.request.siblings or {}).get(key, ()))
