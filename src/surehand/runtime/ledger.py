"""Ledger: how the calls of a runtime are remembered. An outcome is written once and never changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakValueDictionary

from surehand.core.canonical import digest
from surehand.core.errors import InvalidArguments
from surehand.core.outcome import Done, Failed, Outcome, Pending
from surehand.runtime.form import Form
from surehand.runtime.invocation import Invocation
from surehand.runtime.known import digest_of, kept_arguments, known, said
from surehand.runtime.unwritten import Unwritten
from surehand.store import ledger as rows
from surehand.store.database import Statement, StoreUnavailable, Unexpected
from surehand.store.inbox import tool_result
from surehand.store.ledger import Known
from surehand.store.outcomes import arguments_of, outcome_text

if TYPE_CHECKING:
    from surehand.runtime.parts import Parts
    from surehand.store.store import Store

Weigh: TypeAlias = Callable[[int], None]
"""Is told how many bytes came of a call that was promised."""

log = logging.getLogger("surehand")
KEPT = 10_000
"""Calls that a runtime without a store remembers once they are over."""
LARGE = 64 << 10
"""Bytes of arguments that it does not remember then."""


class Ledger:
    """What the stages ask of the store, each in one transaction."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._kept = parts, 0
        self.unwritten = Unwritten(parts)
        self.promised: dict[str, Weigh] = {}
        """Calls that stay in memory until they are forgotten, however many follow."""
        self._claims: WeakValueDictionary[str, Invocation] = WeakValueDictionary()
        """Who claims a call whose id is known, while it lives: of two here, the store cannot tell which one did."""

    async def open(self, invocation: Invocation) -> Known:
        """What the id of a call stands for: this call, if nobody has used it before."""
        store = await self._parts.remembered()
        call = invocation.known = known(invocation)
        if call.call_id in self.unwritten:
            await self.unwritten.mend(store, call.call_id)
        found = await store.write(rows.opened(call))
        if not self._parts.durable:
            await self._make_room(store)
        return Known.of(found[1][0])

    async def _make_room(self, store: Store) -> None:
        """Memory is for the latest; a store that was asked for keeps its own time."""
        self._kept += 1
        if self._kept % (KEPT // 10) == 0:
            from surehand.store.retention import Retention

            only = Retention(None, None, None, None, None, None, None, most_calls=KEPT)
            await store.prune(only, spared=self.promised.keys())

    async def forget(self, call_id: str, promised: Weigh) -> Known | None:
        """Let go of a call that was promised, unless it was again since; the row of one that is not over."""
        if self.promised.get(call_id) is not promised:
            return None
        del self.promised[call_id]
        *_, left = await (await self._parts.remembered()).write(rows.forgotten(call_id))
        return Known.of(left[0]) if left else None

    async def claim(self, invocation: Invocation) -> bool:
        """Write the intent; false if somebody else has. From here on the effect may have happened."""
        store, me = self._parts.store or await self._parts.remembered(), self._parts.owner
        if not _fresh(invocation):
            if (other := self._claims.get(invocation.id, invocation)) is not invocation and other.claims:
                return False
            self._claims[invocation.id], invocation.claims = invocation, True
            step, fence = rows.claimed(invocation.id, me, invocation.fence or 0, invocation.posted), None
            steps = [_expecting(step), *self._intent(invocation)]
        else:
            steps, fence = self._begin(store, invocation), 1
        try:
            results = await store.write(steps)
        except Unexpected:
            invocation.claims = False
            return False
        except StoreUnavailable as error:
            self._give_back(invocation, error)
            invocation.claims = False
            raise
        except asyncio.CancelledError:  # by now it is written or not, and nothing has run
            await self._undo(invocation)
            invocation.claims = False
            raise
        invocation.fence = fence or results[0][0]["fence"]
        return True

    def _begin(self, store: Store, invocation: Invocation) -> list[Statement]:
        """A call that is new. One that belongs to nothing else is like all others of its tool in its scope."""
        form = invocation.form = self._form(store, invocation)
        if form is not None:
            return form.begin(invocation.id, kept_arguments(invocation))
        invocation.known = known(invocation, owner=self._parts.owner, fence=1)
        return [rows.begun(invocation.known), *self._intent(invocation)]

    def _form(self, store: Store, invocation: Invocation) -> Form | None:
        forms, listing = invocation.scope.forms, invocation.listing
        if (form := forms.get(listing)) is not None and invocation.parent is None and invocation.model_id is None:
            return form if invocation.posted is None else None
        call = known(invocation, owner=self._parts.owner, fence=1)
        if call.context != "{}" or call.posted is not None or not self._parts.durable:
            return None
        return forms.setdefault(listing, Form(store, call, self._parts.owner))

    def _give_back(self, invocation: Invocation, error: StoreUnavailable) -> None:
        """A claim in doubt may have been kept, and nothing has run: else the call would seem to run for good."""
        call_id, me, fence = invocation.id, self._parts.owner, invocation.fence
        if fence is not None:
            back = [rows.put_back(call_id, me, fence), rows.put_back(call_id, me, fence + 1, "running")]
            self.unwritten.keep(call_id, back)
            return
        if not _fresh(invocation):
            self.unwritten.keep(call_id, [rows.given_back(call_id, me)])
            return
        refused = Failed("unavailable", f"{invocation.tool_name} was not run: {error}")
        invocation.fence = 1
        self.unwritten.keep(call_id, self._ending(invocation, refused, outcome_text(refused)))
        invocation.fence, invocation.journalled = None, False

    async def _undo(self, invocation: Invocation) -> None:
        """Take a claim back that may have been written. A call that was let run is still to go on."""
        call_id, me, fence = invocation.id, self._parts.owner, invocation.fence
        if _fresh(invocation):
            cancelled = outcome_text(Failed("cancelled", f"{invocation.tool_name} was cancelled before it ran."))
            step = rows.ended(call_id, cancelled, owner=me, fence=1)
            await self.unwritten.surely(call_id, Statement(step.sql, step.params))
        elif fence is None:
            await self.unwritten.surely(call_id, rows.given_back(call_id, me))
        else:
            later = rows.put_back(call_id, me, fence + 1, "running")
            if taken := await self.unwritten.surely(call_id, rows.taken_back(call_id, me, fence + 1), later=later):
                invocation.fence = taken[0]["fence"]

    async def release(self, invocation: Invocation) -> None:
        """Nothing has happened: the call may be tried again under the same id."""
        if (fence := invocation.fence) is not None:
            invocation.fence, invocation.claimed = None, False
            await self.unwritten.surely(invocation.id, rows.released(invocation.id, self._parts.owner, fence))
            invocation.claims = False

    async def end(self, invocation: Invocation, outcome: Done | Failed) -> Outcome:
        """Write the outcome, or give the one that was written before."""
        store = self._parts.store or await self._parts.remembered()
        try:
            text = outcome_text(outcome)
        except Exception as error:  # noqa: BLE001 - a handler may put anything into an outcome
            told, kind, redact = f"{invocation.tool_name} ran, but {error}", type(error).__name__, self._parts.redact
            log.error("%s", redact(told) if redact else told)
            outcome = Failed("crashed", told, executed=True, data={"exception": kind})
            text = outcome_text(outcome)
        invocation.closed = True
        steps = self._ending(invocation, outcome, text)
        try:  # what has happened must be written; what has not can simply be refused
            if invocation.began and invocation.answered is None:
                await self.unwritten.insist(store, invocation.id, steps)
            else:
                await store.write(steps)
        except Unexpected:
            return await self._stored(store, invocation, outcome, text)
        except asyncio.CancelledError:
            self._parts.waits.over(invocation)
            raise
        finally:
            invocation.claims = False
        self._over(invocation, outcome)
        if not self._parts.durable:
            if (weigh := self.promised.get(invocation.id)) is not None:
                weigh(len(text))
            await self._make_room(store)
        return outcome

    def _over(self, invocation: Invocation, outcome: Outcome) -> None:
        self._parts.waits.over(invocation)
        self._parts.shown.written(invocation, outcome)
        if invocation.on_settled is not None:
            invocation.on_settled(invocation)

    def _ending(self, invocation: Invocation, outcome: Done | Failed, text: str) -> list[Statement]:
        call_id = invocation.id
        if invocation.form is not None and invocation.fence == 1 and not invocation.round:
            invocation.journalled = True
            code = outcome.code if isinstance(outcome, Failed) else "ok"
            return invocation.form.end(call_id, text, code, invocation.elapsed() * 1000)
        if (answered := invocation.answered) is not None:
            steps = [answered.statement(), rows.ended_by_answer(call_id, text)]
        elif invocation.fence is not None:
            steps = [rows.ended(call_id, text, owner=self._parts.owner, fence=invocation.fence)]
        else:
            steps = [rows.ended_unclaimed(call_id, text)]
        if not self._parts.durable and invocation.known is not None and len(invocation.known.arguments) > LARGE:
            steps.append(rows.slimmed(call_id))
        told = [*self._pushed(invocation, outcome), *self._told(invocation, outcome, text)]
        return [*steps, *told, *self._parts.shown.statements(invocation, outcome)]

    def _pushed(self, invocation: Invocation, outcome: Done | Failed) -> list[Statement]:
        """Whoever was told to wait finds the result in the inbox; a caller who waits here is told directly."""
        if not invocation.resumed or not self._parts.durable:
            return []
        who, store = invocation.principal, self._parts.store
        result = outcome.data if isinstance(outcome, Done) else {"error": outcome.message, "code": outcome.code}
        assert store is not None
        item = tool_result(invocation.id, invocation.tool_name, who.turn, result)
        return [store.inbox.pushed(who.agent or "", *item)]

    def _intent(self, invocation: Invocation) -> list[Statement]:
        """No effect without its row in the audit, in the same transaction."""
        if not self._parts.durable or (store := self._parts.store) is None:
            return []
        known = invocation.known
        user, detail = invocation.principal.user, {"arguments": digest_of(known.arguments) if known else None}
        return [store.audit.row("intent", invocation.id, invocation.listing.name, user=user, detail=detail)]

    def _told(self, invocation: Invocation, outcome: Done | Failed, text: str) -> list[Statement]:
        """The rows of audit and journal, in the same transaction as what they tell of."""
        if not self._parts.durable or (store := self._parts.store) is None:
            return []
        invocation.journalled = True
        name, user, call_id = invocation.listing.name, invocation.principal.user, invocation.id
        code = outcome.code if isinstance(outcome, Failed) else "ok"
        detail = {"code": code, "outcome": digest_of(text)}
        told = [store.audit.row("outcome", call_id, name, user=user, detail=detail)]
        if (answered := invocation.answered) is not None:
            detail = {"answer": answered.answer, "weight": answered.weight}
            told.insert(0, store.audit.row("answer", call_id, name, user=user, by=answered.by, detail=detail))
            told += self._parts.entry(invocation, "settled", answered.answer)
        return [*told, *self._parts.entry(invocation, "ended", code)]

    async def _stored(self, store: Store, invocation: Invocation, outcome: Done | Failed, text: str) -> Outcome:
        """Somebody else was first, or a write in doubt was kept after all."""
        found = await self.find(invocation.id)
        # An answer is never written twice: where the same outcome is there already, it was somebody else's.
        if found is not None and found.outcome == text and invocation.answered is None:
            self._over(invocation, outcome)
            return outcome
        invocation.lost = True
        if found is not None and found.outcome is None and found.state != "unknown":
            return Pending("result", invocation.id, f"{invocation.tool_name} was answered elsewhere and goes on.")
        return outcome if found is None else self.said(found)

    async def find(self, call_id: str) -> Known | None:
        """The row of a call."""
        store = await self._parts.remembered()
        step = rows.find(call_id)
        found = await store.database.read(step.sql, step.params)
        return Known.of(found[0]) if found else None

    def said(self, call: Known) -> Outcome:
        """What is known of how a call ended."""
        outcome = said(call)
        if isinstance(outcome, Done) and outcome.clipped_text is not None:
            self._parts.outputs.show_reader()  # its text may have been kept by another process
        return outcome

    def stands_for(self, call: Known, invocation: Invocation) -> bool:
        """Whether an id stands for this call. One that the runtime made itself has no fingerprint until it is used."""
        if call.fingerprint:
            return invocation.known is not None and call.fingerprint == invocation.known.fingerprint
        who, listing = invocation.principal, invocation.listing
        if (call.tool, call.user_id, call.session) != (listing.name, who.user, who.session):
            return False
        try:
            return digest(listing.tool.check(arguments_of(call.arguments))) == digest(invocation.arguments)
        except InvalidArguments:
            return False


def _fresh(invocation: Invocation) -> bool:
    """Whether no row can be there yet."""
    return not (invocation.given or invocation.resumed or invocation.round)


def _expecting(step: Statement) -> Statement:
    return step if step.expect is not None else Statement(step.sql, step.params, expect=1)
