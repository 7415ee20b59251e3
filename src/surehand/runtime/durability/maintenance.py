"""Store maintenance: the background task of a runtime with a store.

It renews leases, resumes calls that were answered in another process or before a restart, expires pending calls,
verifies calls whose process died, seals the audit and prunes old rows.
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
from surehand.runtime.pending.resumption import (
    claim_ready_call,
    end_calls_that_follow_nothing,
    end_calls_that_follow_run,
    end_following_calls,
)
from surehand.store.database import Statement, StoreError, to_storable_name
from surehand.store.tables import owners

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope
    from surehand.store.store import Store

log = logging.getLogger("surehand")
MAINTENANCE_INTERVAL_SECONDS = 0.25
"""Seconds between two rounds, if no other process announces a change earlier."""
SEAL_INTERVAL_SECONDS = 1.0
LOST_INPUT_INTERVAL_SECONDS = 5.0
CLEANUP_INTERVAL_SECONDS = 60.0
PRUNE_INTERVAL_SECONDS = 3600.0
VERIFY_TIMEOUT_SECONDS = 5.0
"""Seconds to wait for `verify` functions; slower ones continue in the background."""
LAST_WRITES_SECONDS = 3.0
"""Limit on the writes of a runtime that closes, so that a store that stands still does not keep it."""
READY_CALLS_PER_READ = 100
# The partial index of calls that have not ended is used only by a query that repeats its condition `<> 'ended'`.
_SELECT_READY_CALLS = """SELECT call_id FROM ledger WHERE state = 'ready' AND state <> 'ended' AND call_id > :after
    ORDER BY call_id LIMIT :most"""
_SELECT_OPEN_INPUT_REQUESTS = (
    "SELECT call_id FROM pending WHERE state = 'open' AND waiting_for = 'input' ORDER BY call_id LIMIT 1000"
)
_SELECT_UNENDED_CALLS = "SELECT call_id FROM ledger WHERE state <> 'ended'"
_SELECT_UNKNOWN_CALLS = "SELECT call_id FROM ledger WHERE state = 'unknown' AND state <> 'ended'"
_DELETE_INBOX_ITEM = "DELETE FROM inbox WHERE agent = :agent AND event_id = :event_id AND state = 'pending'"
ENDED_CALLS_PER_READ = 32
_ID_PARAMETERS = ", ".join(f":id_{number}" for number in range(ENDED_CALLS_PER_READ))
_SELECT_ENDED_CALLS = f"SELECT call_id FROM ledger WHERE state = 'ended' AND call_id IN ({_ID_PARAMETERS})"
# A call that failed before its handler ran has no outcome in the ledger, but an entry in the journal.
_SELECT_ENDED_OR_REFUSED_CALLS = f"""{_SELECT_ENDED_CALLS} UNION
    SELECT call_id FROM journal WHERE kind = 'ended' AND call_id IN ({_ID_PARAMETERS})"""


class StoreMaintenance:
    """Runs the maintenance of one runtime's store."""

    def __init__(self, scope: Scope, store: Store) -> None:
        self._scope = scope
        self._services = scope.services
        self._store = store
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
        """Register this runtime as an owner in the store, and load what it needs before providers start."""
        store = self._store
        services = self._services
        services.journal_writer = JournalWriter(store, services.reaper)
        await store.owners.join(services.owner_id)
        await store.owners.release_dead_owners(services.owner_id)
        self._shared_limits.open_queues()
        services.pending_calls.open_count = await store.pending.count()
        services.outputs.stored_count = await store.artifacts.count()
        services.pending_calls.schedule_expiry(await store.pending.next_expiry())
        await store.spaces.refresh_has_spaces()
        await services.visible_calls.look_for_entered_spaces(store)
        if services.outputs.stored_count:
            services.outputs.add_reader_tool()

    async def start_loop(self) -> None:
        """Run the first round, once calls can run, and start the background task."""
        await self._verify_unknown_calls()
        await mark_interrupted_calls(self._store, self._services.owner_id)
        await self._end_lost_input_requests()
        await self._shared_limits.load_breakers()
        await self._sync_offered_tools()
        self._stop_announcements = self._store.database.on_announce(self._wake_event.set)
        self._task = asyncio.get_running_loop().create_task(self._run_loop(), name="surehand maintenance")

    async def stop(self) -> None:
        """Stop the background task, write what is queued and leave the store, which releases unfinished claims."""
        self._stop_announcements()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        journal_writer, self._services.journal_writer = self._services.journal_writer, None
        leave = partial(self._store.owners.leave, self._services.owner_id)
        jobs: list[Callable[[], Awaitable[object]]] = [
            self._services.ledger.write_retry.retry_all,
            self._services.offered_tools.save,
            self._store.audit.seal,
            leave,
        ]
        if journal_writer is not None:
            journal_writer.stop_flushing_for_readers()
            jobs.insert(0, journal_writer.flush)
        try:
            async with asyncio.timeout(LAST_WRITES_SECONDS):
                await _run_last_jobs(jobs)
        except TimeoutError:
            log.warning(
                "The store did not take the last writes within %g seconds; the runtime closed without them. Other "
                "runtimes take over its calls when its lease ends.",
                LAST_WRITES_SECONDS,
            )

    async def _run_loop(self) -> None:
        """Run maintenance rounds until the task is cancelled; a failure is logged and the next round tries again."""
        while True:
            try:
                await self._run_once()
                self._has_warned = False
            except StoreError as error:
                if not self._has_warned:
                    log.warning("The store is unavailable: %s", error)
                self._has_warned = True
            except Exception:
                log.exception("Store maintenance failed; it is tried again")
            pause = 4 * MAINTENANCE_INTERVAL_SECONDS if self._has_warned else MAINTENANCE_INTERVAL_SECONDS
            # Not `wait_for`: it swallows a cancellation that arrives together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake_event.wait()
            self._wake_event.clear()

    async def _run_once(self) -> None:
        """Run one round; jobs with a longer interval run only when they are due."""
        await self._run_every(owners.LEASE_SECONDS / 3, "lease", self._shared_limits.renew_leases)
        await self._run_every(SEAL_INTERVAL_SECONDS, "bury", self.recover_dead_runtimes)
        await self._resume_ready_calls()
        await self._end_overdue_calls()
        await self._wake_waiting_callers()
        await self._wake_tasks_that_wait_for_ends()
        await self._shared_limits.sync_breakers()
        await self._run_every(SEAL_INTERVAL_SECONDS, "offers", self._sync_offered_tools)
        look = partial(self._services.visible_calls.look_for_entered_spaces, self._store)
        await self._run_every(SEAL_INTERVAL_SECONDS, "spaces", look)
        await self._run_every(SEAL_INTERVAL_SECONDS, "slots", self._shared_limits.update_slot_counts)
        await self._run_every(CLEANUP_INTERVAL_SECONDS, "tidy", self._forget_ended_calls)
        await self._run_every(CLEANUP_INTERVAL_SECONDS, "mark", self._services.ledger.mark_open_calls)
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
        """Release the calls of dead runtimes; True if the effect of any is unknown."""
        unknown = await self._store.owners.release_dead_owners(self._services.owner_id)
        for call in unknown:
            log.warning("The effect of call %s of %s is unknown: its process died.", call.call_id, call.tool)
        if unknown:
            await self._verify_unknown_calls()
        await mark_interrupted_calls(self._store, self._services.owner_id)
        return bool(unknown)

    async def _end_lost_input_requests(self) -> None:
        """End input requests whose provider can no longer accept an answer."""
        for found in await self._store.database.read(_SELECT_OPEN_INPUT_REQUESTS):
            call_id = found["call_id"]
            row = await self._store.pending.find(call_id)
            listing = find_listing(self._services, row) if row is not None else None
            connection_bound = listing.abilities.connection_bound if listing is not None else None
            if row is None or connection_bound is None or call_id in self._unreadable_calls:
                continue
            failure = connection_bound.resume_failure(row.provider_state)
            if failure is not None:
                await decisions.end_without_answer(self._scope, call_id, failure.code, failure.message)

    async def _resume_ready_calls(self) -> None:
        """Claim and resume answered calls whose tools this process has."""
        rows = await self._store.database.read(
            _SELECT_READY_CALLS, {"after": self._ready_cursor, "most": READY_CALLS_PER_READ}
        )
        call_ids = [row["call_id"] for row in rows]
        self._ready_cursor = call_ids[-1] if len(call_ids) == READY_CALLS_PER_READ else ""
        for call_id in call_ids:
            if call_id not in self._unreadable_calls:
                await self._resume_ready_call(call_id)

    async def _resume_ready_call(self, call_id: str) -> None:
        """Resume one answered call; an unreadable row must not stop the others."""
        try:
            row = await self._store.pending.find(call_id)
            if row is not None:
                await claim_ready_call(self._scope, row)
        except StoreError:
            raise
        except Exception:
            self._unreadable_calls.add(call_id)  # skip it from now on, and log it once
            log.exception("The answered call %s cannot be resumed: its stored row is unreadable", call_id)

    async def _end_overdue_calls(self) -> None:
        """End overdue pending calls, and calls whose inner call or run has ended."""
        await expire_overdue_calls(self._scope)
        for call_id in await self._store.pending.find_ended_inner_calls():
            await end_following_calls(self._scope, call_id)
        for call_id in await self._store.pending.find_released_inner_calls():
            await end_calls_that_follow_nothing(self._scope, call_id)
        for run_id in await self._store.pending.find_ended_inner_runs():
            await end_calls_that_follow_run(self._scope, run_id)

    async def _sync_offered_tools(self) -> None:
        """Store the tools that sessions offer here, and learn those that they offer in other processes."""
        await self._services.offered_tools.save()
        await self._services.offered_tools.load_latest()

    async def _wake_waiting_callers(self) -> None:
        """Wake callers in this process whose calls were answered and ended in another one."""
        pending_calls = self._services.pending_calls
        waiting = [each for each in pending_calls.waiting_callers if each not in pending_calls.answers_in_progress]
        for call_id in await self._find_ended(waiting):
            caller = pending_calls.waiting_callers.get(call_id)
            if caller is None or caller.done() or (invocation := pending_calls.remove(call_id)) is None:
                continue
            invocation.has_lost_race = True
            invocation.is_outcome_recorded = True
            caller.set_result(True)
            # The other process could not know that the caller still waits, and put the result into the inbox too.
            params = {"agent": invocation.principal.agent or "", "event_id": f"tr:{call_id}"}
            await self._store.write([Statement(_DELETE_INBOX_ITEM, params)])

    async def _wake_tasks_that_wait_for_ends(self) -> None:
        """Wake the tasks that wait for the end of a call, if another process has ended it."""
        call_ends = self._services.call_ends
        for call_id in await self._find_ended(call_ends.awaited_call_ids, _SELECT_ENDED_OR_REFUSED_CALLS):
            call_ends.notify(call_id)

    async def _find_ended(self, call_ids: list[str], query: str = _SELECT_ENDED_CALLS) -> list[str]:
        """Those of these calls that have ended, with one read for every batch of ids."""
        ended: list[str] = []
        for start in range(0, len(call_ids), ENDED_CALLS_PER_READ):
            batch = call_ids[start : start + ENDED_CALLS_PER_READ]
            # Always the same number of parameters, so that the database prepares one statement.
            padded = batch + batch[-1:] * (ENDED_CALLS_PER_READ - len(batch))
            params = {f"id_{number}": to_storable_name(call_id) for number, call_id in enumerate(padded)}
            ended += [row["call_id"] for row in await self._store.database.read(query, params)]
        return ended

    async def _forget_ended_calls(self) -> None:
        """Forget pending calls of this process that another process has ended."""
        await self._shared_limits.prune()
        pending_calls = self._services.pending_calls
        known = set(pending_calls.invocations)
        if not known:
            return
        unended = {row["call_id"] for row in await self._store.database.read(_SELECT_UNENDED_CALLS)}
        in_use = pending_calls.answers_in_progress.keys() | pending_calls.waiting_callers.keys()
        for call_id in known - unended - in_use:
            invocation = pending_calls.invocations.get(call_id)
            if invocation is not None:
                pending_calls.on_call_ended(invocation)

    async def _verify_unknown_calls(self) -> None:
        """Run `verify` for the calls whose effect is unknown, and wait for the fast ones."""
        call_ids = [row["call_id"] for row in await self._store.database.read(_SELECT_UNKNOWN_CALLS)]
        for call_id in call_ids:
            if call_id not in self._verify_tasks:
                self._verify_tasks[call_id] = self._services.reaper.spawn(self._verify_unknown_call(call_id))
        if tasks := [self._verify_tasks[call_id] for call_id in call_ids]:
            await asyncio.wait(tasks, timeout=VERIFY_TIMEOUT_SECONDS)

    async def _verify_unknown_call(self, call_id: str) -> None:
        """Show that the effect of a call is unknown, and run its `verify`."""
        try:
            row = await self._store.pending.find(call_id)
            if row is not None:
                await mark_unknown_effect(self._store, row.call)
                await verify_effect(self._scope, row)
        except StoreError as error:
            log.warning("The effect of call %s is still unknown, because the store failed: %s", call_id, error)
        finally:
            self._verify_tasks.pop(call_id, None)


async def _run_last_jobs(jobs: list[Callable[[], Awaitable[object]]]) -> None:
    for job in jobs:
        try:
            await job()
        except StoreError as error:
            log.warning("A last write to the store failed while the runtime closed: %s", error)


async def expire_overdue_calls(scope: Scope) -> None:
    """End the pending calls whose time is up."""
    store = await scope.services.open_store()
    while expired := await store.pending.find_expired():
        for call_id in expired:
            await decisions.end_without_answer(scope, call_id, "expired", "nobody answered in time.")
        if expired == await store.pending.find_expired():  # other answers are being applied to them
            break
    scope.services.pending_calls.schedule_expiry(await store.pending.next_expiry())
