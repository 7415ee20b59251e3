"""What is left in memory of something that was done again and again: objects are counted, for sizes go up and down."""

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable

WARM, TIMES = 4, 16
_FICKLE = ("builtins", "weakref", "functools", "collections", "_contextvars", "asyncio.events")
"""Where kinds live of which there are some more or some less at any time: caches, and timers that were cancelled."""


async def left_of(doing: Callable[[], Awaitable[object]], times: int = TIMES, warm: int = WARM) -> dict[str, int]:
    """The kinds of objects of which each time leaves one more."""
    for _ in range(warm):
        await doing()
    before = await _alive()
    for _ in range(times):
        await doing()
    return {kind: more for kind, more in (await _alive() - before).items() if more >= times}


async def _alive() -> Counter[str]:
    for _ in range(3):  # what was just let go has its last turns
        await asyncio.sleep(0.01)
        gc.collect()
    kinds = map(type, gc.get_objects())
    return Counter(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds if kind.__module__ not in _FICKLE)
