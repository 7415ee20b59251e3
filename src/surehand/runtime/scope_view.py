"""Read-only properties of a scope: clock, store, policy, queues, statistics and running calls.

The other halves of a scope (`scope_tools`, `scope_answers`, `scope_events`, and the verbs in `scope`) build on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from surehand.runtime.stats import Stats

if TYPE_CHECKING:
    from surehand.catalogue.catalogue import Catalogue
    from surehand.core.call import Principal
    from surehand.core.clock import Clock
    from surehand.core.outcome import Outcome
    from surehand.runtime.invocation.invocation import CallEnvironment
    from surehand.runtime.limits.queues import QueueStatus
    from surehand.runtime.outputs import OversizedOutputs
    from surehand.runtime.policy import Policy
    from surehand.runtime.running_calls import InterruptibleCall
    from surehand.runtime.scope_parts import ScopeParts
    from surehand.store.store import Store


class ScopeView:
    """The read-only properties of a scope."""

    _parts: ScopeParts
    environment: CallEnvironment
    principal: Principal

    @property
    def catalogue(self) -> Catalogue:
        """The tools of the runtime."""
        return self._parts.tool_sources.catalogue

    @property
    def policy(self) -> Policy:
        """The policy of the runtime."""
        return self._parts.tool_sources.policy.current

    @property
    def outputs(self) -> OversizedOutputs:
        """The outputs that were too large to be shown, under their handles."""
        return self._parts.outputs

    @property
    def clock(self) -> Clock:
        """The clock of the runtime."""
        return self.environment.running.clock

    @property
    def workspace(self) -> str:
        """The folder that relative paths of tools belong to."""
        return self.environment.workspace

    @property
    def is_durable(self) -> bool:
        """Whether a store was configured, so that calls survive this process."""
        return self.environment.store.is_durable

    @property
    def is_open(self) -> bool:
        """Whether the runtime is running."""
        return self.environment.running.is_open

    @property
    def store(self) -> Store | None:
        """The configured store, or the one in memory once it has been used."""
        return self.environment.store.current

    @property
    def runtime_id(self) -> str:
        """The id under which the runtime owns its calls in the store."""
        return self.environment.store.owner_id

    @property
    def auto_complete(self) -> bool:
        """Whether `CallEnded` is emitted when a call ends, and not by `complete`."""
        return self._parts.auto_complete

    def redact(self, text: str) -> str:
        """The text without the secrets that the runtime was given."""
        return self._parts.tool_sources.crash_report.redact(text)

    def queues(self) -> dict[str, QueueStatus]:
        """The capacity, use and waiting calls of each queue."""
        return {name: queue.status for name, queue in self._parts.queues.items()}

    def stats(self) -> Stats:
        """Counts and durations of calls, by tool."""
        running = self.environment.running
        has_store = self.store is not None
        return Stats(
            total=len(self.catalogue),
            by_category=self.catalogue.categories(),
            calls=self._parts.stats.snapshot(),
            running=len(running.calls),
            abandoned=self.environment.threads.abandoned_count,
            pending=self._parts.calls.load().local.open_count if has_store else 0,
            artifacts=self.outputs.stored_count,
        )

    def last_results(self, session: str | None = None, *, limit: int = 10) -> list[tuple[str, Outcome]]:
        """The last results of a session of this scope, each with its tool, newest first.

        The runtime keeps the last 10 of each session in memory; a call that still waits has none yet.
        """
        viewer = self.principal
        session = viewer.session if session is None else session
        if session is None or viewer.session not in (None, session):
            return []
        return self._parts.last_results.newest(session, viewer.user, limit)

    def running_calls(self) -> list[InterruptibleCall]:
        """The calls of this scope's user and session that run in this process."""
        return self.environment.running.visible_to(self.principal)
