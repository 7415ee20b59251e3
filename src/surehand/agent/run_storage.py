"""Where a run is remembered while it is driven: in the store, or in this process if there is none.

The loop writes a step before its calls run, and their outcomes before the model is asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, Protocol, TypeAlias

from surehand.agent.limits import Spent
from surehand.agent.run import RunStatus
from surehand.agent.run_state import RunState
from surehand.agent.steps import Step, dump_outcome
from surehand.store.store import Store
from surehand.store.tables.runs import RunClaim

MessageKind: TypeAlias = Literal["steer", "follow_up"]


class RunLost(Exception):
    """Another process drives the run by now: nothing more may be written here."""


class RunRecord(Protocol):
    """Remembers one run, for the one loop that drives it. Every method raises `RunLost` if another loop does."""

    gives_ids: bool
    """Whether calls get ids that are derived from the run, so that they are not made twice."""

    async def add_step(self, step: Step, spent: Spent) -> None:
        """Remember an answer of the model, before any of its calls runs."""

    async def set_told(self, step: Step, spent: Spent) -> None:
        """Remember what the model is told of the calls of a step."""

    async def take_messages(self, step: int, kind: MessageKind | None) -> list[Any]:
        """The messages to the run that this step brings to the model, of one kind or all, in order."""

    async def finish(self, status: RunStatus, spent: Spent, *, report: Mapping[str, Any], reason: str) -> bool:
        """Remember how the run ended or that it waits; False, and nothing changes, if a new message has arrived."""


class UnstoredRun:
    """A run that only this process knows."""

    gives_ids = False

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.messages: list[tuple[MessageKind, Any]] = []
        self.lock = asyncio.Lock()
        """Held by the task that drives the run."""

    async def add_step(self, step: Step, spent: Spent) -> None:
        self.state.spent = spent

    async def set_told(self, step: Step, spent: Spent) -> None:
        self.state.spent = spent

    async def take_messages(self, step: int, kind: MessageKind | None) -> list[Any]:
        taken = [text for each, text in self.messages if kind in (None, each)]
        self.messages = [message for message in self.messages if kind not in (None, message[0])]
        return taken

    async def finish(self, status: RunStatus, spent: Spent, *, report: Mapping[str, Any], reason: str) -> bool:
        if self.messages and status in ("done", "waiting"):
            return False
        self.state.spent = spent
        return True


class StoredRun:
    """A run in the store, under a claim."""

    gives_ids = True

    def __init__(self, store: Store, claim: RunClaim) -> None:
        self._store = store
        self._claim = claim

    async def add_step(self, step: Step, spent: Spent) -> None:
        call_ids = [call.call_id or "" for call in step.calls] if step.runs_calls else []
        self._require(
            await self._store.steps.add(self._claim, step.index, step.to_json(), call_ids, spent=spent.to_json())
        )

    async def set_told(self, step: Step, spent: Spent) -> None:
        outcomes = {call.call_id or "": dump_outcome(call.told) for call in step.calls if call.told is not None}
        if outcomes:
            self._require(
                await self._store.steps.set_outcomes(self._claim, step.index, outcomes, spent=spent.to_json())
            )

    async def take_messages(self, step: int, kind: MessageKind | None) -> list[Any]:
        messages = await self._store.runs.take_messages(self._claim, step, kind)
        if messages is None:
            raise RunLost
        return [message.content for message in messages]

    async def finish(self, status: RunStatus, spent: Spent, *, report: Mapping[str, Any], reason: str) -> bool:
        yields_to_messages = status in ("done", "waiting")
        saved = await self._store.runs.save(
            self._claim,
            status,
            spent=spent.to_json(),
            report=report,
            reason=reason or None,
            unless_messages=yields_to_messages,
        )
        if not saved and (not yields_to_messages or not await self._store.runs.renew(self._claim)):
            raise RunLost
        return saved

    def _require(self, written: bool) -> None:
        if not written:
            raise RunLost

    @asynccontextmanager
    async def keep_claimed(self) -> AsyncIterator[None]:
        """Renew the claim while the block runs, cancel the block if the claim is lost, and release it in the end."""
        driver = asyncio.current_task()
        assert driver is not None
        lost = False

        async def renew() -> None:
            nonlocal lost
            while True:
                await asyncio.sleep(self._claim.lease_seconds / 3)
                if not await self._store.runs.renew(self._claim):
                    lost = True
                    driver.cancel()
                    return

        renewal = asyncio.create_task(renew())
        try:
            yield
        except asyncio.CancelledError:
            if lost and driver.uncancel() == 0:
                raise RunLost from None
            raise
        finally:
            renewal.cancel()
            await asyncio.wait({renewal})
            with suppress(Exception):
                await self._store.runs.release(self._claim)
