"""Manual runtime: a runtime whose time a test lets pass."""

from __future__ import annotations

from typing import Any

from surehand.runtime.runtime import Runtime
from surehand.testing.clock import ManualClock


class ManualRuntime(Runtime):
    """A Runtime like any other, but time stands still until `await runtime.clock.advance(seconds)`."""

    clock: ManualClock

    def __init__(self, *sources: Any, clock: ManualClock | None = None, **options: Any) -> None:
        self.clock = clock or ManualClock()
        super().__init__(*sources, clock=self.clock, **options)


def runtime(*sources: Any, **options: Any) -> ManualRuntime:
    """A runtime for a test, with everything that `Runtime(...)` takes: `async with runtime(add) as rt:`."""
    return ManualRuntime(*sources, **options)
