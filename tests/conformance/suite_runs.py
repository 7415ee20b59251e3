"""Runs of the official suite: all of it, the part of one protocol version, or a single scenario."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from tests.conformance.suite import Client, Result, run_client, run_server

REVISIONS = HANDSHAKE_REVISION, MODERN_REVISION = "2025-11-25", "2026-07-28"
EXTENSIONS = "extensions"
BACKWARD_COMPATIBILITY = "backcompat"

Serve = Callable[[], AbstractAsyncContextManager[str]]
"""Starts a server, gives its URL, and shuts it down."""


async def run_client_suite(client: Client) -> list[Result]:
    """Run every client scenario, under each protocol revision that it belongs to."""
    return [
        result
        for name in (*REVISIONS, EXTENSIONS, BACKWARD_COMPATIBILITY)
        for result in await run_client_part(client, name)
    ]


async def run_client_part(client: Client, name: str) -> list[Result]:
    """Run the client scenarios of one protocol revision, or of another part of the suite."""
    selection = ("--suite", "all", "--spec-version", name) if name in REVISIONS else ("--suite", name)
    return await run_client(client, *selection, version=name)


async def run_client_scenario(client: Client, scenario: str) -> list[Result]:
    """Run one client scenario, under each revision that it belongs to; an extension belongs to none."""
    selection = ("--scenario", scenario)
    results = [
        result
        for revision in REVISIONS
        for result in await run_client(client, *selection, "--spec-version", revision, version=revision)
    ]
    return results or await run_client(client, *selection, version=EXTENSIONS)


async def run_server_part(serve: Serve, part: str) -> list[Result]:
    """Run the server scenarios of one protocol revision, or those of the tasks extension."""
    # The suite lists extensions under "pending", never under "all" of a revision.
    selection = ("--suite", "all", "--spec-version", part) if part in REVISIONS else ("--suite", "pending")
    async with serve() as url:
        results = await run_server(url, *selection, version=part)
    return [result for result in results if part in REVISIONS or result.scenario.startswith("tasks-")]


async def run_server_scenario(serve: Serve, scenario: str, part: str) -> list[Result]:
    """Run one server scenario; the result is empty if it does not belong to this part."""
    if (part in REVISIONS) == scenario.startswith("tasks-"):
        return []
    selection = ("--spec-version", part) if part in REVISIONS else ()
    async with serve() as url:
        results = await run_server(url, "--scenario", scenario, *selection, version=part)
    return [result for result in results if result.checks]
