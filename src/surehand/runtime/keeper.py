"""Keeper: looks after what a store remembers for as long as the runtime lives.

It gives signs of life, goes on with calls that were answered elsewhere or before a restart, ends waits whose time is
up, finds out about calls whose process died, seals the audit and makes room.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from surehand.runtime import settle
from surehand.runtime.answer import take_ready, tell_followers
from surehand.runtime.board import show_interrupted, show_unknown
from surehand.runtime.logbook import Logbook
from surehand.runtime.resume import listing_of
from surehand.runtime.shared_limits import SharedLimits
from surehand.runtime.verify import verify
from surehand.store import owners
from surehand.store.database import Statement, StoreError

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope
    from surehand.store.store import Store

log = logging.getLogger("surehand")
BEAT = 0.25
"""Seconds between two looks at what others may have done."""
SEAL, LOST, TIDY, PRUNE = 1.0, 5.0, 60.0, 3600.0
VERIFY = 5.0
"""Seconds that tools have to find out what happened before the rest goes on; they may go on longer by themselves."""
AT_ONCE = 100
# Only a query that says `<> 'ended'` itself uses the index of calls that have not ended, and not all that ever were.
_READY = """SELECT call_id FROM ledger WHERE state = 'ready' AND state <> 'ended' AND call_id > :after
    ORDER BY call_id LIMIT :most"""
_ASKED = "SELECT call_id FROM pending WHERE state = 'open' AND waiting_for = 'input' ORDER BY call_id LIMIT 1000"
_UNENDED = "SELECT call_id FROM ledger WHERE state <> 'ended'"
_UNKNOWN = "SELECT call_id FROM ledger WHERE state = 'unknown' AND state <> 'ended'"
_NO_NEWS = "DELETE FROM inbox WHERE agent = :agent AND event_id = :event_id AND state = 'pending'"
_ENDED = "SELECT call_id FROM ledger WHERE call_id = :call_id AND state = 'ended'"


class Keeper:
    """One per runtime with a store."""

    def __init__(self, scope: Scope, store: Store) -> None:
        self._scope, self._parts, self._store = scope, scope.parts, store
        self._nudge = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._due: dict[str, float] = {}
        self._after = ""
        self._warned = False
        self._damaged: set[str] = set()
        self._verifying: dict[str, asyncio.Task[None]] = {}
        self._quiet: Callable[[], None] = lambda: None
        self._shared = SharedLimits(scope.parts, store)

    async def start(self) -> None:
        """Take up what was left, and begin to look after the rest."""
        store, parts = self._store, self._parts
        parts.logbook = Logbook(store, parts.reaper)
        await store.owners.join(parts.owner)
        await store.owners.bury(parts.owner)
        self._shared.open()
        parts.waits.open, parts.outputs.count = await store.pending.count(), await store.artifacts.count()
        parts.waits.watch(await store.pending.next_expiry())
        await store.spaces.look()
        if parts.outputs.count:
            parts.outputs.show_reader()

    async def look(self) -> None:
        """The first look, once calls can run; from then on one at every beat."""
        await self._verify()
        await show_interrupted(self._store, self._parts.owner)
        await self._end_lost()
        await self._shared.begin()
        self._quiet = self._store.database.on_announce(self._nudge.set)
        self._task = asyncio.get_running_loop().create_task(self._keep(), name="surehand keeper")

    async def stop(self) -> None:
        """Look after nothing more; what was begun and not run is for others."""
        self._quiet()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        logbook, self._parts.logbook = self._parts.logbook, None
        leave = partial(self._store.owners.leave, self._parts.owner)
        last: list[Callable[[], Awaitable[object]]] = [
            self._parts.ledger.unwritten.retry,
            self._store.audit.seal,
            leave,
        ]
        for work in [logbook.flush, *last] if logbook else last:
            try:
                await work()
            except StoreError as error:
                log.warning("The store could not be left in order: %s", error)

    async def _keep(self) -> None:
        while True:
            try:
                await self._beat()
                self._warned = False
            except StoreError as error:
                if not self._warned:
                    log.warning("The store cannot be reached: %s", error)
                self._warned = True
            except Exception:
                log.exception("Looking after the store failed; it is tried again")
            with suppress(TimeoutError):  # not `wait_for`: that forgets its caller's cancellation after a nudge
                async with asyncio.timeout(4 * BEAT if self._warned else BEAT):
                    await self._nudge.wait()
            self._nudge.clear()

    async def _beat(self) -> None:
        await self._every(owners.LEASE / 3, "lease", self._shared.renew)
        await self._every(SEAL, "bury", self.bury)
        await self._go_on()
        await self._sweep()
        await self._wake()
        await self._shared.look_at_breakers()
        await self._every(SEAL, "slots", self._shared.look_at_slots)
        await self._every(TIDY, "tidy", self._tidy)
        await self._every(LOST, "lost", self._end_lost)
        await self._every(SEAL, "write", self._parts.ledger.unwritten.retry)
        await self._every(SEAL, "seal", self._store.audit.seal)
        await self._every(PRUNE, "prune", self._store.prune)

    async def _every(self, seconds: float, name: str, work: Callable[[], Awaitable[object]]) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._due.get(name, 0.0):
            self._due[name] = now + seconds
            await work()

    async def bury(self) -> bool:
        """Take over from runtimes that are gone."""
        unknown = await self._store.owners.bury(self._parts.owner)
        for call in unknown:
            log.warning("Nobody knows whether call %s of %s has happened: its process died.", call.call_id, call.tool)
        if unknown:
            await self._verify()
        await show_interrupted(self._store, self._parts.owner)
        return bool(unknown)

    async def _end_lost(self) -> None:
        """Waits for input whose provider can do nothing with an answer any more: nobody should be asked in vain."""
        for row in await self._store.database.read(_ASKED):
            held = await self._store.pending.find(row["call_id"])
            listing = listing_of(self._parts, held) if held is not None else None
            if held is None or listing is None or listing.provider is None or row["call_id"] in self._damaged:
                continue
            if (lost := listing.provider.lost(held.note)) is not None:
                await settle.close(self._scope, row["call_id"], lost.code, lost.message)

    async def _go_on(self) -> None:
        """Claim calls that were answered, where their tool is here."""
        found = await self._store.database.read(_READY, {"after": self._after, "most": AT_ONCE})
        self._after = found[-1]["call_id"] if len(found) == AT_ONCE else ""
        for call_id in [row["call_id"] for row in found if row["call_id"] not in self._damaged]:
            await self._take(call_id)

    async def _take(self, call_id: str) -> None:
        try:
            held = await self._store.pending.find(call_id)
            if held is not None:
                await take_ready(self._scope, held)
        except StoreError:
            raise
        except Exception:
            self._damaged.add(call_id)  # the others go on, and it is told once
            log.exception("Call %s was answered, but what is kept of it cannot be read", call_id)

    async def _sweep(self) -> None:
        """Waits whose time is up, and calls that wait for a call that has ended."""
        await sweep(self._scope)
        for call_id in await self._store.pending.left_behind():
            await tell_followers(self._scope, call_id)

    async def _wake(self) -> None:
        """Callers who wait here for an answer that was given elsewhere."""
        for call_id, live in list(self._parts.waits.live.items()):
            if call_id in self._parts.waits.going or not await self._store.database.read(_ENDED, {"call_id": call_id}):
                continue
            if not live.done() and (invocation := self._parts.waits.forget(call_id)) is not None:
                invocation.lost = invocation.closed = True
                live.set_result(True)
                # Who answered could not know that the caller waits: now that it is told, it is no news any more.
                told = {"agent": invocation.principal.agent or "", "event_id": f"tr:{call_id}"}
                await self._store.write([Statement(_NO_NEWS, told)])

    async def _tidy(self) -> None:
        """Forget calls that were made here, waited, and were ended by somebody else."""
        await self._shared.forget()
        waits = self._parts.waits
        if not (before := set(waits.here)):
            return
        unended = {row["call_id"] for row in await self._store.database.read(_UNENDED)}
        for call_id in before - unended - waits.going.keys() - waits.live.keys():
            if (invocation := waits.here.get(call_id)) is not None:
                waits.over(invocation)

    async def _verify(self) -> None:
        """Tools find out what they can; one that takes its time is not waited for."""
        found = [row["call_id"] for row in await self._store.database.read(_UNKNOWN)]
        for call_id in found:
            if call_id not in self._verifying:
                self._verifying[call_id] = self._parts.reaper.own(self._verify_one(call_id))
        if tasks := [self._verifying[call_id] for call_id in found]:
            await asyncio.wait(tasks, timeout=VERIFY)

    async def _verify_one(self, call_id: str) -> None:
        try:
            held = await self._store.pending.find(call_id)
            if held is not None:
                await show_unknown(self._store, held.call)
                await verify(self._scope, held)
        except StoreError as error:
            log.warning("What became of call %s is still unknown: %s", call_id, error)
        finally:
            self._verifying.pop(call_id, None)


async def sweep(scope: Scope) -> None:
    """End the waits whose time is up."""
    store = await scope.parts.remembered()
    while late := await store.pending.late():
        for call_id in late:
            await settle.close(scope, call_id, "expired", "nobody answered in time.")
        if late == await store.pending.late():  # somebody acts on them already
            break
    scope.parts.waits.watch(await store.pending.next_expiry())
