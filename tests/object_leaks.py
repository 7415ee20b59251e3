"""Finds object leaks: runs something repeatedly and counts objects by type, because memory sizes fluctuate."""

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable

WARM_UP_RUNS = 4
MEASURED_RUNS = 16
_IGNORED_MODULES = ("builtins", "weakref", "functools", "collections", "_contextvars", "asyncio.events")
"""Modules of types whose number fluctuates: caches, and cancelled timers."""


async def count_leaked_objects(
    operation: Callable[[], Awaitable[object]], times: int = MEASURED_RUNS, warm: int = WARM_UP_RUNS
) -> dict[str, int]:
    """The types of which every run leaves at least one more object, with the number of new objects."""
    for _ in range(warm):
        await operation()
    before = await _count_objects()
    for _ in range(times):
        await operation()
    return {kind: more for kind, more in (await _count_objects() - before).items() if more >= times}


async def _count_objects() -> Counter[str]:
    for _ in range(3):  # closed tasks and transports need some iterations of the loop to be freed
        await asyncio.sleep(0.01)
        gc.collect()
    kinds = map(type, gc.get_objects())
    return Counter(
        f"{kind.__module__}.{kind.__qualname__}" for kind in kinds if kind.__module__ not in _IGNORED_MODULES
    )
