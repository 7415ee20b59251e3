"""MCP servers as a configuration names them: what is known of each, and, if asked for, how it starts."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from surehand.assemble.mcp_servers import build_mcp_server, config_variables, server_entries
from surehand.cli.doctor_checks import Finding, missing_packages
from surehand.cli.formatting import format_duration
from surehand.cli.options import error_message
from surehand.config.config import Config
from surehand.config.errors import ConfigError
from surehand.core.errors import DefinitionError, ToolError
from surehand.providers.mcp.config.deferred_address import DeferredAddress
from surehand.providers.mcp.config.server_entry import ServerEntry
from surehand.providers.mcp.provider import Server, ServerReport
from surehand.providers.mcp.tools.manifest import Manifest, ManifestCache
from surehand.providers.trust.lock import DefinitionLock
from surehand.runtime.redaction import build_redactor

MAX_CONCURRENT_STARTS = 8
"""Servers that are started at the same time."""
START_TIMEOUT_SECONDS = 60.0
"""Seconds that a server has to come up where it says nothing of that itself."""


async def check_servers(
    config: Config, environment: Mapping[str, str], *, names: Sequence[str], start: bool
) -> list[Finding]:
    """Everything about the servers, in their order.

    Args:
        names: those to look at; none means all of them.
        start: whether they are started.
    """
    assert config.mcp_servers is not None
    try:
        found = [entry for entry in server_entries(config.mcp_servers) if not names or entry.name in names]
        looks = [_ServerCheck(config, entry, environment) for entry in found if entry.has_address]
    except ConfigError as error:
        return [Finding("MCP servers", "fail", *_split_fix(error_message(error)))]
    if found and (missing := missing_packages("mcp")):
        fix = "pip install 'surehand[mcp]'."
        return [Finding("MCP servers", "fail", f"They need what is not installed: {', '.join(missing)}.", fix)]
    gate = asyncio.Semaphore(config.defaults.mcp_init_concurrency or MAX_CONCURRENT_STARTS)
    with _silence_logs():
        told = await asyncio.gather(*(look.findings(gate if start else None) for look in looks))
    incomplete = [
        Finding(f"server {entry.name}", "warn", "left out: it has neither a command nor a url.", "write one of them.")
        for entry in found
        if not entry.has_address
    ]
    return [*(finding for each in told for finding in each), *incomplete]


@contextmanager
def _silence_logs() -> Iterator[None]:
    """All that would be logged is among the findings; those who debug see it twice."""
    log = logging.getLogger("surehand")
    before = log.level
    if before != logging.DEBUG:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


class _ServerCheck:
    """One look at one server."""

    def __init__(self, config: Config, entry: ServerEntry, environment: Mapping[str, str]) -> None:
        self._entry, self._subject = entry, f"server {entry.name}"
        variables = config_variables(config, environment)
        self._server = build_mcp_server(config, entry, variables)
        assert config.mcp_servers is not None
        self._route = DeferredAddress(entry, variables, config.mcp_servers.location(entry.key_path))
        self._redact = build_redactor(secret for secret in self._route.secret_values() if len(secret) >= 8)

    async def findings(self, start_limiter: asyncio.Semaphore | None) -> list[Finding]:
        if not self._entry.enabled:
            return [self._finding("ok", f"switched off: {self._route.label}", enabled=False)]
        problem = await self._route.find_problem()
        if problem:
            return [self._finding("fail", *_split_fix(error_message(Exception(problem))))]
        first = (
            await self._start_and_describe(start_limiter)
            if start_limiter is not None
            else await self._describe_from_manifest()
        )
        return [first, *[found async for found in self._other_findings()]]

    async def _describe_from_manifest(self) -> Finding:
        """What it said when it was last asked."""
        manifest = _load_manifest(self._server)
        if manifest is None:
            return self._finding(
                "ok", f"{self._route.label}; never started here", "`surehand doctor --start` starts it."
            )
        age = format_duration(time.time() - manifest.listed_at)
        try:
            tools = await self._server.offered_tools()
        except (DefinitionError, ToolError, OSError):  # what is wrong with the lock is told below
            tools = [str(tool.get("name")) for tool in manifest.tools]
        return self._finding(
            "ok",
            f"{self._route.label}; {_tool_count_text(len(tools), len(manifest.tools))}, as listed {age} ago",
            tools=tools,
            listed_at=manifest.listed_at,
        )

    async def _start_and_describe(self, start_limiter: asyncio.Semaphore) -> Finding:
        async with start_limiter:
            report = await _start_report(self._server)
        more: dict[str, Any] = {
            "ok": report.ok, "state": report.state, "protocol": report.protocol, "server_name": report.server_name,
            "server_version": report.server_version, "tools": list(report.tools), "seconds": round(report.seconds, 3),
        }  # fmt: skip
        if report.ok:
            said = " ".join(filter(None, [report.server_name, report.server_version]))
            tools = _tool_count_text(len(report.tools), report.listed_count)
            told = f"{tools}, protocol {report.protocol}, up in {report.seconds:.1f} s"
            return self._finding("ok", f"{self._route.label}; {said + ', ' if said else ''}{told}", **more)
        problem, fix = _split_fix(error_message(Exception(report.error)))
        told, fix = _with_stderr_lines(problem, report.stderr), fix or f"try it yourself: {self._route.label}"
        return self._finding("fail", told, fix, **more, stderr=report.stderr)

    async def _other_findings(self) -> AsyncIterator[Finding]:
        for note in self._entry.ignored_key_notes:
            yield self._finding("warn", note, "take it out.")
        try:
            if (signed_in := self._route.is_signed_in()) is False:
                fix = f"surehand login {self._server.namespace}"
                yield self._finding("warn", "nobody is signed in from this machine.", fix, signed_in=signed_in)
            held = [change for change in self._open_lock().changes() if change.namespace == self._server.namespace]
        except (DefinitionError, ToolError, OSError) as error:
            yield self._finding("fail", error_message(error))
            return
        if held:
            names = ", ".join(change.name for change in held)
            fix = f"surehand lock diff {self._server.namespace}"
            told = f"held back, since they are not what they were: {names}"
            yield self._finding("warn", told, fix, changed=[change.name for change in held])

    def _open_lock(self) -> DefinitionLock:
        return DefinitionLock(self._server.options.lock)

    def _finding(self, status: Any, message: str, fix: str = "", **details: Any) -> Finding:
        details = {
            "server": self._entry.name,
            "kind": self._entry.transport_type,
            "label": self._route.label,
            **details,
        }
        if "stderr" in details:
            details["stderr"] = self._redact(details["stderr"])
        return Finding(self._subject, status, self._redact(message), self._redact(fix), details)


async def _start_report(server: Server) -> ServerReport:
    limit = server.options.start_timeout
    began = time.monotonic()
    try:
        async with asyncio.timeout(START_TIMEOUT_SECONDS if limit is None else float(limit)):
            return await server.check()
    except TimeoutError:
        seconds = time.monotonic() - began
        error, stderr = f"It was not up after {seconds:.0f} s.", server.address.exit_report()
        return ServerReport(ok=False, state="starting", seconds=seconds, error=error, stderr=stderr)
    finally:
        await server.stop()


def _load_manifest(server: Server) -> Manifest | None:
    kept = server.options.manifest
    return None if kept is False else ManifestCache(None if kept is True else kept).load(server.address.identity)


def _split_fix(problem: str) -> tuple[str, str]:
    """What is wrong, and what to do about it."""
    told, _, fix = problem.partition(" Fix: ")
    return told, fix


def _with_stderr_lines(problem: str, stderr: str) -> str:
    """What is wrong, and what the server wrote before it ended, unless that is the one line that was told."""
    lines = [line for line in stderr.splitlines() if line.startswith("  ")]
    if not any(line.strip() not in problem for line in lines):
        return problem
    return "\n".join([problem, "The last lines of its stderr:", *lines])


def _tool_count_text(count: int, listed: int) -> str:
    """As many as there are here, and as the server lists where some are not."""
    return f"{count}{f' of {listed}' * (listed > count)} tool{'' if listed == 1 else 's'}"
