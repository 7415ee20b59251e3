"""Which parts of the suite are run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from tests.conformance.suite import Client, Result, examine, run

REVISIONS = OLDER, NEWER = "2025-11-25", "2026-07-28"
EXTENSIONS, BEFORE = "extensions", "backcompat"

Serve = Callable[[], AbstractAsyncContextManager[str]]
"""Starts a server, says where it is, and ends it."""


async def everything(client: Client) -> list[Result]:
    """Each scenario for clients, under each revision that it belongs to."""
    return [result for name in (*REVISIONS, EXTENSIONS, BEFORE) for result in await part(client, name)]


async def part(client: Client, name: str) -> list[Result]:
    """All for clients that belongs to a revision of the protocol, or to none."""
    chosen = ("--suite", "all", "--spec-version", name) if name in REVISIONS else ("--suite", name)
    return await run(client, *chosen, version=name)


async def single(client: Client, scenario: str) -> list[Result]:
    """One scenario for clients, under each revision that it belongs to; an extension belongs to none."""
    chosen = ("--scenario", scenario)
    found = [
        result
        for revision in REVISIONS
        for result in await run(client, *chosen, "--spec-version", revision, version=revision)
    ]
    return found or await run(client, *chosen, version=EXTENSIONS)


async def served(serve: Serve, part: str) -> list[Result]:
    """All for servers that belongs to a revision of the protocol, or the extension for tasks."""
    # Extensions are never in "all" of a revision; they are with those that the suite does not count yet.
    chosen = ("--suite", "all", "--spec-version", part) if part in REVISIONS else ("--suite", "pending")
    async with serve() as url:
        results = await examine(url, *chosen, version=part)
    return [result for result in results if part in REVISIONS or result.scenario.startswith("tasks-")]


async def single_served(serve: Serve, scenario: str, part: str) -> list[Result]:
    """One scenario for servers; nothing if it is not of this part."""
    if (part in REVISIONS) == scenario.startswith("tasks-"):
        return []
    chosen = ("--spec-version", part) if part in REVISIONS else ()
    async with serve() as url:
        results = await examine(url, "--scenario", scenario, *chosen, version=part)
    return [result for result in results if result.checks]
