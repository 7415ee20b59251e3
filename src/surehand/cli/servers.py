"""MCP servers as a configuration names them: what is known of each, and, if asked for, how it starts."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from surehand.assemble.mcp import entries, server_for, variables_of
from surehand.cli.finding import Finding
from surehand.cli.machine import missing_of
from surehand.cli.options import shown
from surehand.cli.screen import duration
from surehand.config.config import Config
from surehand.config.errors import ConfigError
from surehand.core.errors import DefinitionError, ToolError
from surehand.providers.mcp.manifest import Manifest, Manifests
from surehand.providers.mcp.provider import Report, Server
from surehand.providers.mcp.trust.lock import Lock
from surehand.providers.mcp.written.entry import Entry
from surehand.providers.mcp.written.late import Late
from surehand.runtime.redaction import redactor

AT_ONCE = 8
"""Servers that are started at the same time."""
PATIENCE = 60.0
"""Seconds that a server has to come up where it says nothing of that itself."""


async def servers(
    config: Config, environment: Mapping[str, str], *, names: Sequence[str], start: bool
) -> list[Finding]:
    """Everything about the servers, in their order.

    Args:
        names: those to look at; none means all of them.
        start: whether they are started.
    """
    assert config.mcp_servers is not None
    try:
        found = [entry for entry in entries(config.mcp_servers) if not names or entry.name in names]
        looks = [_Look(config, entry, environment) for entry in found]
    except ConfigError as error:
        return [Finding("MCP servers", "fail", *_parted(shown(error)))]
    if found and (missing := missing_of("mcp")):
        fix = "pip install 'surehand[mcp]'."
        return [Finding("MCP servers", "fail", f"They need what is not installed: {', '.join(missing)}.", fix)]
    gate = asyncio.Semaphore(config.defaults.mcp_init_concurrency or AT_ONCE)
    with _quiet():
        told = await asyncio.gather(*(look.findings(gate if start else None) for look in looks))
    return [finding for each in told for finding in each]


@contextmanager
def _quiet() -> Iterator[None]:
    """All that would be logged is among the findings; those who debug see it twice."""
    log = logging.getLogger("surehand")
    before = log.level
    if before != logging.DEBUG:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


class _Look:
    """One look at one server."""

    def __init__(self, config: Config, entry: Entry, environment: Mapping[str, str]) -> None:
        self._entry, self._about = entry, f"server {entry.name}"
        variables = variables_of(config, environment)
        self._server = server_for(config, entry, variables)
        assert config.mcp_servers is not None
        self._route = Late(entry, variables, config.mcp_servers.where(entry.at))
        self._redact = redactor(secret for secret in self._route.secrets() if len(secret) >= 8)

    async def findings(self, gate: asyncio.Semaphore | None) -> list[Finding]:
        if not self._entry.enabled:
            return [self._finding("ok", f"switched off: {self._route.label}", enabled=False)]
        problem = await self._route.problem()
        if problem:
            return [self._finding("fail", *_parted(shown(Exception(problem))))]
        first = await self._started(gate) if gate is not None else await self._known()
        return [first, *[found async for found in self._further()]]

    async def _known(self) -> Finding:
        """What it said when it was last asked."""
        manifest = _manifest(self._server)
        if manifest is None:
            return self._finding(
                "ok", f"{self._route.label}; never started here", "`surehand doctor --start` starts it."
            )
        age = duration(time.time() - manifest.listed_at)
        try:
            tools = await self._server.offered()
        except (DefinitionError, ToolError, OSError):  # what is wrong with the lock is told below
            tools = [str(tool.get("name")) for tool in manifest.tools]
        return self._finding(
            "ok",
            f"{self._route.label}; {_tools(len(tools), len(manifest.tools))}, as listed {age} ago",
            tools=tools,
            listed_at=manifest.listed_at,
        )

    async def _started(self, gate: asyncio.Semaphore) -> Finding:
        async with gate:
            report = await _report(self._server)
        more: dict[str, Any] = {
            "ok": report.ok, "state": report.state, "protocol": report.protocol, "server_name": report.server_name,
            "server_version": report.server_version, "tools": list(report.tools), "seconds": round(report.seconds, 3),
        }  # fmt: skip
        if report.ok:
            said = " ".join(filter(None, [report.server_name, report.server_version]))
            tools = _tools(len(report.tools), report.listed)
            told = f"{tools}, protocol {report.protocol}, up in {report.seconds:.1f} s"
            return self._finding("ok", f"{self._route.label}; {said + ', ' if said else ''}{told}", **more)
        problem, fix = _parted(shown(Exception(report.error)))
        told, fix = _with_lines(problem, report.stderr), fix or f"try it yourself: {self._route.label}"
        return self._finding("fail", told, fix, **more, stderr=report.stderr)

    async def _further(self) -> AsyncIterator[Finding]:
        for note in self._entry.notes:
            yield self._finding("warn", note, "take it out.")
        try:
            if (signed_in := self._route.signed_in()) is False:
                fix = f"surehand login {self._server.namespace}"
                yield self._finding("warn", "nobody is signed in from this machine.", fix, signed_in=signed_in)
            held = [change for change in self._lock().changes() if change.server == self._server.namespace]
        except (DefinitionError, ToolError, OSError) as error:
            yield self._finding("fail", shown(error))
            return
        if held:
            names = ", ".join(change.name for change in held)
            fix = f"surehand lock diff {self._server.namespace}"
            told = f"held back, since they are not what they were: {names}"
            yield self._finding("warn", told, fix, changed=[change.name for change in held])

    def _lock(self) -> Lock:
        return Lock(self._server.options.lock)

    def _finding(self, mark: Any, told: str, fix: str = "", **more: Any) -> Finding:
        more = {"server": self._entry.name, "kind": self._entry.kind, "label": self._route.label, **more}
        if "stderr" in more:
            more["stderr"] = self._redact(more["stderr"])
        return Finding(self._about, mark, self._redact(told), self._redact(fix), more)


async def _report(server: Server) -> Report:
    limit = server.options.start_timeout
    began = time.monotonic()
    try:
        async with asyncio.timeout(PATIENCE if limit is None else float(limit)):
            return await server.check()
    except TimeoutError:
        seconds = time.monotonic() - began
        error, stderr = f"It was not up after {seconds:.0f} s.", server.route.exit_report()
        return Report(ok=False, state="starting", seconds=seconds, error=error, stderr=stderr)
    finally:
        await server.stop()


def _manifest(server: Server) -> Manifest | None:
    kept = server.options.manifest
    return None if kept is False else Manifests(None if kept is True else kept).load(server.route.identity)


def _parted(problem: str) -> tuple[str, str]:
    """What is wrong, and what to do about it."""
    told, _, fix = problem.partition(" Fix: ")
    return told, fix


def _with_lines(problem: str, story: str) -> str:
    """What is wrong, and what the server wrote before it ended, unless that is the one line that was told."""
    lines = [line for line in story.splitlines() if line.startswith("  ")]
    if not any(line.strip() not in problem for line in lines):
        return problem
    return "\n".join([problem, "The last lines of its stderr:", *lines])


def _tools(number: int, listed: int) -> str:
    """As many as there are here, and as the server lists where some are not."""
    return f"{number}{f' of {listed}' * (listed > number)} tool{'' if listed == 1 else 's'}"
