"""What the suite is run with, beside our client: three kinds of servers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial

from tests.conformance import fixture
from tests.conformance import library_listening as library
from tests.conformance.explained import LIBRARY, OWN, PROXY, PROXY_OF_NEWER, PROXY_OF_OLDER, Reason
from tests.conformance.judgement import unexplained
from tests.conformance.library_fixture import Fixture
from tests.conformance.listening import listening
from tests.conformance.proxy import proxy
from tests.conformance.runs import EXTENSIONS, NEWER, OLDER, REVISIONS, Serve, served, single_served
from tests.conformance.suite import Result

AT_ONCE = 2
"""Parts of the suite; they spend half of the time waiting."""
HASTY = frozenset({"server-stateless"})
"""Where the suite gives a server half a second for some answers, which a busy machine may not have. One that fails is
run once more, alone, and the table says so."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server, and how it is judged."""

    serve: Serve
    explained: Mapping[str, Reason]
    parts: tuple[str, ...] = REVISIONS
    """Which parts of the suite are for it."""


def _own() -> AbstractAsyncContextManager[str]:
    return listening(fixture.app())


def _library() -> AbstractAsyncContextManager[str]:
    return library.listening(Fixture().app())


TARGETS: Mapping[str, Target] = {
    "own": Target(_own, OWN, (*REVISIONS, EXTENSIONS)),
    "library": Target(_library, LIBRARY),
    f"proxy of {OLDER}": Target(partial(proxy, "legacy"), {**PROXY, **PROXY_OF_OLDER}, (*REVISIONS, EXTENSIONS)),
    f"proxy of {NEWER}": Target(partial(proxy, "2026-07-28"), {**PROXY, **PROXY_OF_NEWER}),
}


async def examined(names: Iterable[str]) -> dict[str, list[Result]]:
    """What the suite says of these, each part with a server of its own: some scenarios change its tools."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def examine(target: Target, part: str) -> list[Result]:
        async with turns:
            return await served(target.serve, part)

    async with asyncio.TaskGroup() as group:
        runs = {
            name: [group.create_task(examine(TARGETS[name], part)) for part in TARGETS[name].parts] for name in names
        }
    return {
        name: [await _sure(TARGETS[name], result) for part in parts for result in part.result()]
        for name, parts in runs.items()
    }


async def _sure(target: Target, result: Result) -> Result:
    if result.scenario not in HASTY or not unexplained([result], target.explained):
        return result
    [again] = await single_served(target.serve, result.scenario, result.version)
    return replace(again, again=True)
