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

from surehand.runtime.active_spaces import ActiveSpaces
from surehand.runtime.durability.call_messages import mark_interrupted_calls
from surehand.runtime.durability.journal_writer import JournalWriter
from surehand.runtime.durability.ledger import Ledger
from surehand.runtime.durability.write_retry import WriteRetry
from surehand.runtime.limits.shared_limits import SharedLimits
from surehand.runtime.maintenance.answered_calls import AnsweredCalls
from surehand.runtime.maintenance.dead_runtimes import DeadRuntimes
from surehand.runtime.maintenance.ended_calls import EndedCalls
from surehand.runtime.offered_tools import OfferedTools
from surehand.store.database import StoreError
from surehand.store.tables import owners

if TYPE_CHECKING:
    from surehand.store.store import Store

log = logging.getLogger("surehand")
MAINTENANCE_INTERVAL_SECONDS = 0.25
"""Seconds between two rounds, if no other process announces a change earlier."""
SEAL_INTERVAL_SECONDS = 1.0
LOST_INPUT_INTERVAL_SECONDS = 5.0
CLEANUP_INTERVAL_SECONDS = 60.0
PRUNE_INTERVAL_SECONDS = 3600.0
LAST_WRITES_SECONDS = 3.0
"""Limit on the writes of a runtime that closes, so that a store that stands still does not keep it."""


class StoreMaintenance:
    """Runs the maintenance of one runtime's store."""

    def __init__(
        self,
        store: Store,
        owner_id: str,
        *,
        dead_runtimes: DeadRuntimes,
        answered_calls: AnsweredCalls,
        ended_calls: EndedCalls,
        shared_limits: SharedLimits,
        offered_tools: OfferedTools,
        active_spaces: ActiveSpaces,
        ledger: Ledger,
        write_retry: WriteRetry,
        journal_writer: JournalWriter,
    ) -> None:
        self._store = store
        self._owner_id = owner_id
        self._dead_runtimes = dead_runtimes
        self._answered_calls = answered_calls
        self._ended_calls = ended_calls
        self._shared_limits = shared_limits
        self._offered_tools = offered_tools
        self._active_spaces = active_spaces
        self._ledger = ledger
        self._write_retry = write_retry
        self._journal_writer = journal_writer
        self._wake_event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._next_run_times: dict[str, float] = {}
        self._has_warned = False
        self._stop_announcements: Callable[[], None] = lambda: None

    async def join_store(self) -> None:
        """Register this runtime as an owner in the store, before providers start."""
        await self._store.owners.join(self._owner_id)
        await self._store.owners.release_dead_owners(self._owner_id)
        self._shared_limits.open_queues()

    async def start_loop(self) -> None:
        """Run the first round, once calls can run, and start the background task."""
        await self._dead_runtimes.verify_unknown_calls()
        await mark_interrupted_calls(self._store, self._owner_id)
        await self._answered_calls.end_lost_input_requests()
        await self._shared_limits.load_breakers()
        await self._sync_offered_tools()
        self._stop_announcements = self._store.database.on_announce(self._wake_event.set)
        self._task = asyncio.get_running_loop().create_task(self._run_loop(), name="surehand maintenance")

    async def recover_dead_runtimes(self) -> bool:
        """Release the calls of dead runtimes; True if the effect of any is unknown."""
        return await self._dead_runtimes.recover_dead_runtimes()

    async def stop(self) -> None:
        """Stop the background task, write what is queued and leave the store, which releases unfinished claims."""
        self._stop_announcements()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        self._journal_writer.stop_flushing_for_readers()
        jobs: list[Callable[[], Awaitable[object]]] = [
            self._journal_writer.flush,
            self._write_retry.retry_all,
            self._offered_tools.save,
            self._store.audit.seal,
            partial(self._store.owners.leave, self._owner_id),
        ]
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
        await self._answered_calls.resume_ready_calls()
        await self._answered_calls.end_overdue_calls()
        await self._ended_calls.wake_waiting_callers()
        await self._ended_calls.wake_tasks_that_wait_for_ends()
        await self._shared_limits.sync_breakers()
        await self._run_every(SEAL_INTERVAL_SECONDS, "offers", self._sync_offered_tools)
        await self._run_every(SEAL_INTERVAL_SECONDS, "spaces", self._active_spaces.look_for_entered_spaces)
        await self._run_every(SEAL_INTERVAL_SECONDS, "slots", self._shared_limits.update_slot_counts)
        await self._run_every(CLEANUP_INTERVAL_SECONDS, "limits", self._shared_limits.prune)
        await self._run_every(CLEANUP_INTERVAL_SECONDS, "tidy", self._ended_calls.forget_ended_calls)
        await self._run_every(CLEANUP_INTERVAL_SECONDS, "mark", self._ledger.mark_open_calls)
        await self._run_every(LOST_INPUT_INTERVAL_SECONDS, "lost", self._answered_calls.end_lost_input_requests)
        await self._run_every(SEAL_INTERVAL_SECONDS, "write", self._write_retry.retry_all)
        await self._run_every(SEAL_INTERVAL_SECONDS, "seal", self._store.audit.seal)
        await self._run_every(PRUNE_INTERVAL_SECONDS, "prune", self._store.prune)

    async def _run_every(self, seconds: float, name: str, job: Callable[[], Awaitable[object]]) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._next_run_times.get(name, 0.0):
            self._next_run_times[name] = now + seconds
            await job()

    async def _sync_offered_tools(self) -> None:
        """Store the tools that sessions offer here, and learn those that they offer in other processes."""
        await self._offered_tools.save()
        await self._offered_tools.load_latest()


async def _run_last_jobs(jobs: list[Callable[[], Awaitable[object]]]) -> None:
    for job in jobs:
        try:
            await job()
        except StoreError as error:
            log.warning("A last write to the store failed while the runtime closed: %s", error)
