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

from surehand.runtime.call_messages import mark_interrupted_calls, mark_unknown_effect
from surehand.runtime.durability.journal_writer import JournalWriter
from surehand.runtime.durability.verify import verify_effect
from surehand.runtime.limits.shared_limits import SharedLimits
from surehand.runtime.pending import decisions
from surehand.runtime.pending.restored_call import find_listing
from surehand.runtime.pending.resumption import claim_ready_call, end_following_calls
from surehand.store.database import Statement, StoreError
from surehand.store.tables import owners

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope
    from surehand.store.store import Store

log = logging.getLogger("surehand")
MAINTENANCE_INTERVAL_SECONDS = 0.25
"""Seconds between two looks at what others may have done."""
SEAL_INTERVAL_SECONDS, LOST_INPUT_INTERVAL_SECONDS, CLEANUP_INTERVAL_SECONDS, PRUNE_INTERVAL_SECONDS = (
    1.0,
    5.0,
    60.0,
    3600.0,
)
VERIFY_TIMEOUT_SECONDS = 5.0
"""Seconds that tools have to find out what happened before the rest goes on; they may go on longer by themselves."""
READY_CALLS_PER_READ = 100
# Only a query that says `<> 'ended'` itself uses the index of calls that have not ended, and not all that ever were.
_SELECT_READY_CALLS = """SELECT call_id FROM ledger WHERE state = 'ready' AND state <> 'ended' AND call_id > :after
    ORDER BY call_id LIMIT :most"""
_SELECT_OPEN_INPUT_REQUESTS = (
    "SELECT call_id FROM pending WHERE state = 'open' AND waiting_for = 'input' ORDER BY call_id LIMIT 1000"
)
_SELECT_UNENDED_CALLS = "SELECT call_id FROM ledger WHERE state <> 'ended'"
_SELECT_UNKNOWN_CALLS = "SELECT call_id FROM ledger WHERE state = 'unknown' AND state <> 'ended'"
_DELETE_INBOX_ITEM = "DELETE FROM inbox WHERE agent = :agent AND event_id = :event_id AND state = 'pending'"
_SELECT_ENDED_CALL = "SELECT call_id FROM ledger WHERE call_id = :call_id AND state = 'ended'"


class StoreMaintenance:
    """One per runtime with a store."""

    def __init__(self, scope: Scope, store: Store) -> None:
        self._scope, self._services, self._store = scope, scope.services, store
        self._wake_event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._next_run_times: dict[str, float] = {}
        self._ready_cursor = ""
        self._has_warned = False
        self._unreadable_calls: set[str] = set()
        self._verify_tasks: dict[str, asyncio.Task[None]] = {}
        self._stop_announcements: Callable[[], None] = lambda: None
        self._shared_limits = SharedLimits(scope.services, store)

    async def join_store(self) -> None:
        """Take up what was left, and begin to look after the rest."""
        store, parts = self._store, self._services
        parts.journal_writer = JournalWriter(store, parts.reaper)
        await store.owners.join(parts.owner_id)
        await store.owners.release_dead_owners(parts.owner_id)
        self._shared_limits.open_queues()
        parts.pending_calls.open_count, parts.outputs.stored_count = (
            await store.pending.count(),
            await store.artifacts.count(),
        )
        parts.pending_calls.schedule_expiry(await store.pending.next_expiry())
        await store.spaces.refresh_has_spaces()
        if parts.outputs.stored_count:
            parts.outputs.add_reader_tool()

    async def start_loop(self) -> None:
        """The first look, once calls can run; from then on one at every beat."""
        await self._verify_unknown_calls()
        await mark_interrupted_calls(self._store, self._services.owner_id)
        await self._end_lost_input_requests()
        await self._shared_limits.load_breakers()
        self._stop_announcements = self._store.database.on_announce(self._wake_event.set)
        self._task = asyncio.get_running_loop().create_task(self._run_loop(), name="surehand keeper")

    async def stop(self) -> None:
        """Look after nothing more; what was begun and not run is for others."""
        self._stop_announcements()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        logbook, self._services.journal_writer = self._services.journal_writer, None
        leave = partial(self._store.owners.leave, self._services.owner_id)
        last: list[Callable[[], Awaitable[object]]] = [
            self._services.ledger.write_retry.retry_all,
            self._store.audit.seal,
            leave,
        ]
        for work in [logbook.flush, *last] if logbook else last:
            try:
                await work()
            except StoreError as error:
                log.warning("The store could not be left in order: %s", error)

    async def _run_loop(self) -> None:
        while True:
            try:
                await self._run_once()
                self._has_warned = False
            except StoreError as error:
                if not self._has_warned:
                    log.warning("The store cannot be reached: %s", error)
                self._has_warned = True
            except Exception:
                log.exception("Looking after the store failed; it is tried again")
            with suppress(TimeoutError):  # not `wait_for`: that forgets its caller's cancellation after a nudge
                async with asyncio.timeout(
                    4 * MAINTENANCE_INTERVAL_SECONDS if self._has_warned else MAINTENANCE_INTERVAL_SECONDS
                ):
                    await self._wake_event.wait()
            self._wake_event.clear()

    async def _run_once(self) -> None:
        await self._run_every(owners.LEASE_SECONDS / 3, "lease", self._shared_limits.renew_leases)
        await self._run_every(SEAL_INTERVAL_SECONDS, "bury", self.recover_dead_runtimes)
        await self._resume_ready_calls()
        await self._end_overdue_calls()
        await self._wake_waiting_callers()
        await self._shared_limits.sync_breakers()
        await self._run_every(SEAL_INTERVAL_SECONDS, "slots", self._shared_limits.update_slot_counts)
        await self._run_every(CLEANUP_INTERVAL_SECONDS, "tidy", self._forget_ended_calls)
        await self._run_every(LOST_INPUT_INTERVAL_SECONDS, "lost", self._end_lost_input_requests)
        await self._run_every(SEAL_INTERVAL_SECONDS, "write", self._services.ledger.write_retry.retry_all)
        await self._run_every(SEAL_INTERVAL_SECONDS, "seal", self._store.audit.seal)
        await self._run_every(PRUNE_INTERVAL_SECONDS, "prune", self._store.prune)

    async def _run_every(self, seconds: float, name: str, job: Callable[[], Awaitable[object]]) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._next_run_times.get(name, 0.0):
            self._next_run_times[name] = now + seconds
            await job()

    async def recover_dead_runtimes(self) -> bool:
        """Take over from runtimes that are gone."""
        unknown = await self._store.owners.release_dead_owners(self._services.owner_id)
        for call in unknown:
            log.warning("Nobody knows whether call %s of %s has happened: its process died.", call.call_id, call.tool)
        if unknown:
            await self._verify_unknown_calls()
        await mark_interrupted_calls(self._store, self._services.owner_id)
        return bool(unknown)

    async def _end_lost_input_requests(self) -> None:
        """Waits for input whose provider can do nothing with an answer any more: nobody should be asked in vain."""
        for row in await self._store.database.read(_SELECT_OPEN_INPUT_REQUESTS):
            held = await self._store.pending.find(row["call_id"])
            listing = find_listing(self._services, held) if held is not None else None
            if held is None or listing is None or listing.provider is None or row["call_id"] in self._unreadable_calls:
                continue
            if (lost := listing.provider.resume_failure(held.provider_state)) is not None:
                await decisions.end_without_answer(self._scope, row["call_id"], lost.code, lost.message)

    async def _resume_ready_calls(self) -> None:
        """Claim calls that were answered, where their tool is here."""
        found = await self._store.database.read(
            _SELECT_READY_CALLS, {"after": self._ready_cursor, "most": READY_CALLS_PER_READ}
        )
        self._ready_cursor = found[-1]["call_id"] if len(found) == READY_CALLS_PER_READ else ""
        for call_id in [row["call_id"] for row in found if row["call_id"] not in self._unreadable_calls]:
            await self._resume_ready_call(call_id)

    async def _resume_ready_call(self, call_id: str) -> None:
        try:
            held = await self._store.pending.find(call_id)
            if held is not None:
                await claim_ready_call(self._scope, held)
        except StoreError:
            raise
        except Exception:
            self._unreadable_calls.add(call_id)  # the others go on, and it is told once
            log.exception("Call %s was answered, but what is kept of it cannot be read", call_id)

    async def _end_overdue_calls(self) -> None:
        """Waits whose time is up, and calls that wait for a call that has ended."""
        await expire_overdue_calls(self._scope)
        for call_id in await self._store.pending.find_ended_inner_calls():
            await end_following_calls(self._scope, call_id)

    async def _wake_waiting_callers(self) -> None:
        """Callers who wait here for an answer that was given elsewhere."""
        for call_id, live in list(self._services.pending_calls.waiting_callers.items()):
            if call_id in self._services.pending_calls.answers_in_progress or not await self._store.database.read(
                _SELECT_ENDED_CALL, {"call_id": call_id}
            ):
                continue
            if not live.done() and (invocation := self._services.pending_calls.remove(call_id)) is not None:
                invocation.has_lost_race = invocation.is_outcome_recorded = True
                live.set_result(True)
                # Who answered could not know that the caller waits: now that it is told, it is no news any more.
                told = {"agent": invocation.principal.agent or "", "event_id": f"tr:{call_id}"}
                await self._store.write([Statement(_DELETE_INBOX_ITEM, told)])

    async def _forget_ended_calls(self) -> None:
        """Forget calls that were made here, waited, and were ended by somebody else."""
        await self._shared_limits.prune()
        waits = self._services.pending_calls
        if not (before := set(waits.invocations)):
            return
        unended = {row["call_id"] for row in await self._store.database.read(_SELECT_UNENDED_CALLS)}
        for call_id in before - unended - waits.answers_in_progress.keys() - waits.waiting_callers.keys():
            if (invocation := waits.invocations.get(call_id)) is not None:
                waits.on_call_ended(invocation)

    async def _verify_unknown_calls(self) -> None:
        """Tools find out what they can; one that takes its time is not waited for."""
        found = [row["call_id"] for row in await self._store.database.read(_SELECT_UNKNOWN_CALLS)]
        for call_id in found:
            if call_id not in self._verify_tasks:
                self._verify_tasks[call_id] = self._services.reaper.spawn(self._verify_unknown_call(call_id))
        if tasks := [self._verify_tasks[call_id] for call_id in found]:
            await asyncio.wait(tasks, timeout=VERIFY_TIMEOUT_SECONDS)

    async def _verify_unknown_call(self, call_id: str) -> None:
        try:
            held = await self._store.pending.find(call_id)
            if held is not None:
                await mark_unknown_effect(self._store, held.call)
                await verify_effect(self._scope, held)
        except StoreError as error:
            log.warning("What became of call %s is still unknown: %s", call_id, error)
        finally:
            self._verify_tasks.pop(call_id, None)


async def expire_overdue_calls(scope: Scope) -> None:
    """End the waits whose time is up."""
    store = await scope.services.open_store()
    while late := await store.pending.find_expired():
        for call_id in late:
            await decisions.end_without_answer(scope, call_id, "expired", "nobody answered in time.")
        if late == await store.pending.find_expired():  # somebody acts on them already
            break
    scope.services.pending_calls.schedule_expiry(await store.pending.next_expiry())
