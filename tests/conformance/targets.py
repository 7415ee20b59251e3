"""The servers that the suite tests: our own, the MCP SDK's, and our proxy in front of the MCP SDK's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial

from tests.conformance import own_server, sdk_http
from tests.conformance.evaluation import find_unexplained
from tests.conformance.expected_failures import OWN, PROXY, PROXY_OF_HANDSHAKE, PROXY_OF_MODERN, SDK, ExpectedFailure
from tests.conformance.own_http import serve_app
from tests.conformance.own_proxy import serve_proxy
from tests.conformance.sdk_server import SdkServer
from tests.conformance.suite import Result
from tests.conformance.suite_runs import (
    EXTENSIONS,
    HANDSHAKE_REVISION,
    MODERN_REVISION,
    REVISIONS,
    Serve,
    run_server_part,
    run_server_scenario,
)

MAX_CONCURRENT_PARTS = 2
"""Parts of the suite that run at once; they spend half of the time waiting."""
TIMING_SENSITIVE_SCENARIOS = frozenset({"server-stateless"})
"""The suite allows a server half a second for some answers, which is too short on a busy machine. A failed scenario is
run once more, alone, and the table says so."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server, and its expected failures."""

    serve: Serve
    expected_failures: Mapping[str, ExpectedFailure]
    parts: tuple[str, ...] = REVISIONS
    """The parts of the suite that test it."""


def _serve_own() -> AbstractAsyncContextManager[str]:
    return serve_app(own_server.app())


def _serve_sdk() -> AbstractAsyncContextManager[str]:
    return sdk_http.serve_app(SdkServer().app())


TARGETS: Mapping[str, Target] = {
    "own": Target(_serve_own, OWN, (*REVISIONS, EXTENSIONS)),
    "sdk": Target(_serve_sdk, SDK),
    f"proxy of {HANDSHAKE_REVISION}": Target(
        partial(serve_proxy, "legacy"), {**PROXY, **PROXY_OF_HANDSHAKE}, (*REVISIONS, EXTENSIONS)
    ),
    f"proxy of {MODERN_REVISION}": Target(partial(serve_proxy, "2026-07-28"), {**PROXY, **PROXY_OF_MODERN}),
}


async def run_targets(names: Iterable[str]) -> dict[str, list[Result]]:
    """Run the suite with these targets. Each part gets a server of its own, because some scenarios change its tools."""
    slots = asyncio.Semaphore(MAX_CONCURRENT_PARTS)

    async def run_part(target: Target, part: str) -> list[Result]:
        async with slots:
            return await run_server_part(target.serve, part)

    async with asyncio.TaskGroup() as group:
        runs = {
            name: [group.create_task(run_part(TARGETS[name], part)) for part in TARGETS[name].parts] for name in names
        }
    return {
        name: [await _rerun_if_timing_sensitive(TARGETS[name], result) for part in parts for result in part.result()]
        for name, parts in runs.items()
    }


async def _rerun_if_timing_sensitive(target: Target, result: Result) -> Result:
    if result.scenario not in TIMING_SENSITIVE_SCENARIOS or not find_unexplained([result], target.expected_failures):
        return result
    [second] = await run_server_scenario(target.serve, result.scenario, result.version)
    return replace(second, second_run=True)
