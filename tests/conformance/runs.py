"""Which parts of the suite are run."""

from __future__ import annotations

from tests.conformance.suite import Client, Result, run

REVISIONS = ("2025-11-25", "2026-07-28")
EXTENSIONS, OLDER = "extensions", "backcompat"


async def everything(client: Client) -> list[Result]:
    """Each scenario under each revision that it belongs to."""
    return [result for name in (*REVISIONS, EXTENSIONS, OLDER) for result in await part(client, name)]


async def part(client: Client, name: str) -> list[Result]:
    """All that belongs to a revision of the protocol, or to none."""
    chosen = ("--suite", "all", "--spec-version", name) if name in REVISIONS else ("--suite", name)
    return await run(client, *chosen, version=name)


async def single(client: Client, scenario: str) -> list[Result]:
    """One scenario, under each revision that it belongs to; an extension belongs to none."""
    chosen = ("--scenario", scenario)
    found = [
        result
        for revision in REVISIONS
        for result in await run(client, *chosen, "--spec-version", revision, version=revision)
    ]
    return found or await run(client, *chosen, version=EXTENSIONS)
