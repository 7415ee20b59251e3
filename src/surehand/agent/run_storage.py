"""Where a run is remembered while it is driven: in the store, or in this process if there is none.

The loop writes a step before its calls run, and their outcomes before the model is asked again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from surehand.agent.limits import Spent
from surehand.agent.run import RunStatus
from surehand.agent.run_state import RunState
from surehand.agent.steps import Step, dump_outcome
from surehand.store.database import StoreError, UnstorableValue
from surehand.store.store import Store
from surehand.store.tables.runs import RunClaim

log = logging.getLogger("surehand")
CLAIM_CHECK_SECONDS = 1.0
"""How often a process that drives a run looks whether it was cancelled elsewhere."""
MessageKind: TypeAlias = Literal["steer", "follow_up"]
FIRST_RETRY_SECONDS = 2.0
"""How long a run waits after its first failed attempt; after each further one four times as long."""
MAX_RETRY_SECONDS = 600.0
MAX_REASON_LENGTH = 500
LEFT_REASON = "Its caller was cancelled or left its stream. It goes on when it is resumed."


class RunLost(Exception):
    """Another process drives the run by now, or is to: nothing more may be written here."""


class RunRecord(Protocol):
    """Remembers one run, for the one loop that drives it. Every method raises `RunLost` if another loop does."""

    derives_call_ids: bool
    """Whether calls get ids that are derived from the run, so that they are not made twice."""

    async def add_step(self, step: Step, spent: Spent) -> None:
        """Remember an answer of the model, before any of its calls runs."""

    async def save_outcomes(self, step: Step, spent: Spent) -> None:
        """Remember the outcomes that the model is shown of the calls of a step."""

    async def take_messages(self, step: int, kind: MessageKind | None) -> list[Any]:
        """The messages to the run that this step brings to the model, of one kind or all, in order."""

    async def finish(self, status: RunStatus, spent: Spent, *, report: Mapping[str, Any], reason: str) -> bool:
        """Remember how the run ended or that it waits; False, and nothing changes, if a new message has arrived."""


@dataclass(slots=True)
class SentMessage:
    """A message to a run that only this process knows."""

    kind: MessageKind
    text: Any
    step: int | None = None
    """The step that brings it to the model: again, if the request fails and is repeated."""


class UnstoredRun:
    """A run that only this process knows."""

    derives_call_ids = False

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.messages: list[SentMessage] = []
        self.lock = asyncio.Lock()
        """Held by the task that drives the run."""
        self._driver: asyncio.Task[Any] | None = None
        self._is_cancelled = False

    @contextmanager
    def stop_on_cancel(self) -> Iterator[None]:
        """Let `cancel` end the block, which then raises `RunLost`."""
        self._driver = asyncio.current_task()
        assert self._driver is not None
        cancelling_before = self._driver.cancelling()
        try:
            yield
        except asyncio.CancelledError:
            if self._is_cancelled and self._driver.uncancel() <= cancelling_before:
                raise RunLost from None
            raise
        finally:
            self._driver = None

    def cancel(self) -> bool:
        """Stop driving the run; False if no task drives it."""
        self._is_cancelled = True
        if self._driver is None:
            return False
        self._driver.cancel()
        return True

    async def add_step(self, step: Step, spent: Spent) -> None:
        pass

    async def save_outcomes(self, step: Step, spent: Spent) -> None:
        pass

    async def take_messages(self, step: int, kind: MessageKind | None) -> list[Any]:
        for message in self.messages:
            if message.step is None and kind in (None, message.kind):
                message.step = step
        return [message.text for message in self.messages if message.step == step]

    async def finish(self, status: RunStatus, spent: Spent, *, report: Mapping[str, Any], reason: str) -> bool:
        has_new = any(message.step is None for message in self.messages)
        return not (has_new and status in ("done", "waiting"))


class StoredRun:
    """A run in the store, under a claim.

    Args:
        goes_on_elsewhere: whether workers go on with the run if the task that drives it is cancelled now: they do if
            the process stops, and do not if the caller has left the run.
    """

    derives_call_ids = True

    def __init__(self, store: Store, claim: RunClaim, *, goes_on_elsewhere: Callable[[], bool]) -> None:
        self._store = store
        self._claim = claim
        self._goes_on_elsewhere = goes_on_elsewhere
        self._is_finished = False
        """Whether the claim was given up together with the last write."""
        self._is_lost = False
        self._is_handed_back = False
        self._driver: asyncio.Task[Any] | None = None

    def hand_back(self) -> None:
        """Stop driving the run when its step is stored, and let another process go on."""
        self._is_handed_back = True

    def _raise_if_handed_back(self) -> None:
        if self._is_handed_back:
            raise RunLost

    async def add_step(self, step: Step, spent: Spent) -> None:
        call_ids = [call.call_id or "" for call in step.calls] if step.runs_calls else []
        answer = step.to_json()
        if not await self._store.steps.add(self._claim, step.index, answer, call_ids, spent=spent.to_json()):
            raise RunLost
        if call_ids:
            self._raise_if_handed_back()

    async def save_outcomes(self, step: Step, spent: Spent) -> None:
        outcomes = {
            call.call_id or "": dump_outcome(call.shown_outcome)
            for call in step.calls
            if call.shown_outcome is not None
        }
        if outcomes:
            spent_json = spent.to_json()
            if not await self._store.steps.set_outcomes(self._claim, step.index, outcomes, spent=spent_json):
                raise RunLost
        self._raise_if_handed_back()

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
        self._is_finished = saved
        return saved

    def abandon(self) -> None:
        """Stop driving the run: the claim is lost."""
        if self._driver is not None and not self._is_lost:
            self._is_lost = True
            self._driver.cancel()

    @asynccontextmanager
    async def keep_claimed(self) -> AsyncIterator[None]:
        """Renew the claim while the block runs, cancel the block if the claim is lost, and release it in the end."""
        driver = self._driver = asyncio.current_task()
        assert driver is not None
        cancelling_before = driver.cancelling()

        async def renew() -> None:
            renewal_seconds = self._claim.lease_seconds / 3
            pause = min(CLAIM_CHECK_SECONDS, renewal_seconds)
            seconds = 0.0
            while True:
                await asyncio.sleep(pause)
                seconds += pause
                try:
                    if seconds < renewal_seconds:
                        is_claimed = await self._store.runs.is_claimed(self._claim)
                    else:
                        seconds = 0.0
                        is_claimed = await self._store.runs.renew(self._claim)
                except StoreError as error:  # if it lasts, the lease ends, and the next write fails
                    log.warning("The claim of run %s could not be renewed: %s", self._claim.run_id, error)
                    continue
                if not is_claimed:
                    self.abandon()
                    return

        renewal = asyncio.create_task(renew())
        failure: Exception | None = None
        is_left = False
        try:
            yield
        except asyncio.CancelledError:
            if self._is_lost and driver.uncancel() <= cancelling_before:
                raise RunLost from None
            is_left = not self._is_handed_back and not self._goes_on_elsewhere()
            raise
        except Exception as error:
            failure = error
            raise
        finally:
            self._driver = None
            renewal.cancel()
            await asyncio.wait({renewal})
            if not self._is_finished:
                with suppress(Exception):  # of a store that is gone: then the lease runs out
                    if is_left:
                        await self._store.runs.leave(self._claim, LEFT_REASON)
                    else:
                        await self._release(failure)

    async def _release(self, failure: Exception | None) -> None:
        """Let another process go on: at once, or after a back-off if the attempt has failed."""
        if failure is None or isinstance(failure, RunLost) or _is_of_store(failure):
            await self._store.runs.release(self._claim)
            return
        delay = min(FIRST_RETRY_SECONDS * 4**self._claim.run.attempts, MAX_RETRY_SECONDS)
        first_line = next(iter(str(failure).splitlines()), "")
        reason = f"{type(failure).__name__}: {first_line}"[:MAX_REASON_LENGTH]
        await self._store.runs.release_after_failure(self._claim, reason, delay=delay)


def _is_of_store(error: Exception) -> bool:
    """Whether the store is to blame for a failure, and not the run."""
    return isinstance(error, StoreError) and not isinstance(error, UnstorableValue)
