"""Composition of the maintenance of a configured store, which `Runtime` loads when it opens one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surehand.runtime.call_loader import CallServices
from surehand.runtime.compose import RuntimeParts
from surehand.runtime.durability.journal_writer import JournalWriter
from surehand.runtime.limits.shared_limits import SharedLimits
from surehand.runtime.maintenance.answered_calls import AnsweredCalls
from surehand.runtime.maintenance.dead_runtimes import DeadRuntimes
from surehand.runtime.maintenance.ended_calls import EndedCalls
from surehand.runtime.maintenance.store_maintenance import StoreMaintenance
from surehand.runtime.maintenance.verify import EffectVerification

if TYPE_CHECKING:
    from surehand.store.store import Store


def compose_maintenance(parts: RuntimeParts, calls: CallServices, store: Store) -> StoreMaintenance:
    """The maintenance of a configured store that this runtime has opened."""
    owner_id = parts.store.owner_id
    parts.journal.writer = JournalWriter(store, parts.background_tasks, parts.options.crash_report)
    verification = EffectVerification(
        parts.store, calls.restored_calls, calls.answering.answers, calls.call_resumer, parts.background_tasks
    )
    return StoreMaintenance(
        store,
        owner_id,
        dead_runtimes=DeadRuntimes(store, owner_id, verification, parts.background_tasks),
        answered_calls=AnsweredCalls(
            store, calls.answering.answers, calls.call_resumer, calls.restored_calls, calls.cancelled_runs
        ),
        ended_calls=EndedCalls(store, calls.local, parts.running.ends),
        shared_limits=SharedLimits(
            parts.queues, parts.breakers, catalogue=parts.catalogue, store=store, owner_id=owner_id
        ),
        offered_tools=parts.offered_tools,
        active_spaces=parts.active_spaces,
        ledger=calls.ledger,
        write_retry=calls.write_retry,
        journal_writer=parts.journal.writer,
    )
