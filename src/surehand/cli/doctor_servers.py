"""Checks the configured MCP servers for `surehand doctor`: from their cached manifests, or by starting them."""

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
from surehand.core.extras import install_command
from surehand.providers.mcp.config.deferred_address import DeferredAddress
from surehand.providers.mcp.config.server_entry import ServerEntry
from surehand.providers.mcp.provider import Server, ServerReport
from surehand.providers.mcp.tools.manifest import Manifest, ManifestCache
from surehand.providers.trust.lock import DefinitionLock

MAX_CONCURRENT_STARTS = 8
"""Servers that start at the same time unless the configuration sets another number."""
START_TIMEOUT_SECONDS = 60.0
"""Time for a server to start unless its entry sets another."""


async def check_servers(
    config: Config, environment: Mapping[str, str], *, names: Sequence[str], start: bool
) -> list[Finding]:
    """Check the servers, and return the findings in their order.

    Args:
        names: the servers to check; empty for all of them.
        start: whether to start them.
    """
    assert config.mcp_servers is not None
    try:
        entries = [entry for entry in server_entries(config.mcp_servers) if not names or entry.name in names]
        checks = [_ServerCheck(config, entry, environment) for entry in entries if entry.has_address]
    except ConfigError as error:
        return [Finding("MCP servers", "fail", *_split_fix(error_message(error)))]
    missing = missing_packages("mcp") if entries else []
    if missing:
        problem = f"These packages are not installed: {', '.join(missing)}."
        return [Finding("MCP servers", "fail", problem, f"{install_command('mcp')}.")]
    start_limiter = asyncio.Semaphore(config.defaults.mcp_init_concurrency or MAX_CONCURRENT_STARTS)
    with _silence_logs():
        findings = await asyncio.gather(*(check.findings(start_limiter if start else None) for check in checks))
    incomplete = [
        Finding(f"server {entry.name}", "warn", "left out: it has neither a command nor a url.", "write one of them.")
        for entry in entries
        if not entry.has_address
    ]
    return [*(finding for server_findings in findings for finding in server_findings), *incomplete]


@contextmanager
def _silence_logs() -> Iterator[None]:
    """Silence the log, unless with --debug: the findings report the same problems."""
    log = logging.getLogger("surehand")
    previous_level = log.level
    if previous_level != logging.DEBUG:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(previous_level)


class _ServerCheck:
    """The check of one server."""

    def __init__(self, config: Config, entry: ServerEntry, environment: Mapping[str, str]) -> None:
        self._entry = entry
        self._subject = f"server {entry.name}"
        variables = config_variables(config, environment)
        self._server = build_mcp_server(config, entry, variables)
        assert config.mcp_servers is not None
        self._address = DeferredAddress(entry, variables, config.mcp_servers.location(entry.key_path))
        self._redact = self._address.configured_secrets().redact

    async def findings(self, start_limiter: asyncio.Semaphore | None) -> list[Finding]:
        """Check the server; with a limiter, also start it."""
        if not self._entry.enabled:
            return [self._finding("ok", f"switched off: {self._address.label}", enabled=False)]
        problem = await self._address.find_problem()
        if problem:
            return [self._finding("fail", *_split_fix(error_message(Exception(problem))))]
        if start_limiter is not None:
            first = await self._start_and_describe(start_limiter)
        else:
            first = await self._describe_from_manifest()
        return [first, *[finding async for finding in self._other_findings()]]

    async def _describe_from_manifest(self) -> Finding:
        """Describe the server from the tools that it listed last."""
        manifest = _load_manifest(self._server)
        if manifest is None:
            message = f"{self._address.label}; never started here"
            return self._finding("ok", message, "`surehand doctor --start` starts it.")
        age = format_duration(time.time() - manifest.listed_at)
        try:
            tools = await self._server.offered_tools()
        except (DefinitionError, ToolError, OSError):  # `_other_findings` reports a broken lock file
            tools = [str(tool.get("name")) for tool in manifest.tools]
        count = _tool_count_text(len(tools), len(manifest.tools))
        message = f"{self._address.label}; {count}, as listed {age} ago"
        return self._finding("ok", message, tools=tools, listed_at=manifest.listed_at)

    async def _start_and_describe(self, start_limiter: asyncio.Semaphore) -> Finding:
        async with start_limiter:
            report = await _start_report(self._server)
        details: dict[str, Any] = {
            "ok": report.ok, "state": report.state, "protocol": report.protocol, "server_name": report.server_name,
            "server_version": report.server_version, "tools": list(report.tools), "seconds": round(report.seconds, 3),
        }  # fmt: skip
        if report.ok:
            parts = [
                " ".join(filter(None, [report.server_name, report.server_version])),
                _tool_count_text(len(report.tools), report.listed_count),
                f"protocol {report.protocol}",
                f"up in {report.seconds:.1f} s",
            ]
            return self._finding("ok", f"{self._address.label}; {', '.join(filter(None, parts))}", **details)
        problem, fix = _split_fix(error_message(Exception(report.error)))
        message = _with_stderr_lines(problem, report.stderr)
        fix = fix or f"try it yourself: {self._address.label}"
        return self._finding("fail", message, fix, **details, stderr=report.stderr)

    async def _other_findings(self) -> AsyncIterator[Finding]:
        for note in self._entry.ignored_key_notes:
            yield self._finding("warn", note, "remove it.")
        if problems := self._server.describe_cache_problems():
            yield self._finding("warn", f"its cache has no effect on some tools. {problems}")
        try:
            if self._address.is_signed_in() is False:
                fix = f"surehand login {self._server.namespace}"
                yield self._finding("warn", "not signed in on this machine.", fix, signed_in=False)
            changes = [change for change in self._open_lock().changes() if change.namespace == self._server.namespace]
        except (DefinitionError, ToolError, OSError) as error:
            yield self._finding("fail", error_message(error))
            return
        if changes:
            names = [change.name for change in changes]
            fix = f"surehand lock diff {self._server.namespace}"
            message = f"held back, because their definitions have changed: {', '.join(names)}"
            yield self._finding("warn", message, fix, changed=names)

    def _open_lock(self) -> DefinitionLock:
        return DefinitionLock(self._server.options.lock)

    def _finding(self, status: Any, message: str, fix: str = "", **details: Any) -> Finding:
        details = {
            "server": self._entry.name,
            "kind": self._entry.transport_type,
            "label": self._address.label,
            **details,
        }
        if "stderr" in details:
            details["stderr"] = self._redact(details["stderr"])
        return Finding(self._subject, status, self._redact(message), self._redact(fix), details)


async def _start_report(server: Server) -> ServerReport:
    """Start the server, list its tools and stop it."""
    timeout = server.options.start_timeout
    started = time.monotonic()
    try:
        async with asyncio.timeout(START_TIMEOUT_SECONDS if timeout is None else float(timeout)):
            return await server.check()
    except TimeoutError:
        seconds = time.monotonic() - started
        error = f"It did not start within {seconds:.0f} s."
        stderr = server.address.exit_report()
        return ServerReport(ok=False, state="starting", seconds=seconds, error=error, stderr=stderr)
    finally:
        await server.stop()


def _load_manifest(server: Server) -> Manifest | None:
    location = server.options.manifest
    if location is False:
        return None
    return ManifestCache(None if location is True else location).load(server.address.identity)


def _split_fix(problem: str) -> tuple[str, str]:
    """The problem and its fix."""
    message, _, fix = problem.partition(" Fix: ")
    return message, fix


def _with_stderr_lines(problem: str, stderr: str) -> str:
    """The problem and the last lines of the server's stderr, unless the problem quotes them already."""
    lines = [line for line in stderr.splitlines() if line.startswith("  ")]
    if not any(line.strip() not in problem for line in lines):
        return problem
    return "\n".join([problem, "The last lines of its stderr:", *lines])


def _tool_count_text(count: int, listed: int) -> str:
    """The number of tools; if some are filtered out, also the number that the server lists."""
    number = f"{count} of {listed}" if listed > count else str(count)
    return f"{number} tool" if listed == 1 else f"{number} tools"
