"""ErrorHooks: calls the hooks `on_error` of a run, and keeps what they tell the model until a request brings it."""

from __future__ import annotations

from typing import Any

from surehand.agent.hooks import RunHooks
from surehand.agent.models.base import ModelError
from surehand.agent.steps import StepCall
from surehand.core.outcome import Failed, Outcome


class CallError(Exception):
    """A call of a run failed or was refused: what `on_error` gets, as it gets the error of a request."""

    def __init__(self, tool: str, arguments: str, outcome: Failed) -> None:
        super().__init__(outcome.message)
        self.tool = tool
        self.arguments = arguments
        """As the model wrote them."""
        self.outcome = outcome


class ErrorHooks:
    """Tells the hooks of one run about requests and calls that failed."""

    def __init__(self, hooks: RunHooks) -> None:
        self._hooks = hooks
        self._on_request: list[Any] = []
        self._on_calls: list[Any] = []
        self._reported_calls: set[str] = set()
        """The ids in the conversation of the calls whose errors were reported."""

    @property
    def advice(self) -> list[Any]:
        """What the hooks tell the model with its next request."""
        return [*self._on_calls, *self._on_request]

    def clear(self) -> None:
        """Forget the advice: a request has brought it."""
        self._on_calls = []
        self._on_request = []

    async def report_request_error(self, error: ModelError) -> bool:
        """Tell the hooks about a request that failed; whether one of them has advice for the model."""
        self._on_request = await self._hooks.call("on_error", error)
        return bool(self._on_request)

    async def report_call_error(self, call: StepCall, outcome: Outcome | None) -> None:
        """Tell the hooks about a call, once, if it failed."""
        if isinstance(outcome, Failed) and call.message_id not in self._reported_calls:
            self._reported_calls.add(call.message_id)
            self._on_calls += await self._hooks.call("on_error", CallError(call.name, call.arguments, outcome))
