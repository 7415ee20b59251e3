"""Checks of `surehand doctor` on OpenAPI documents: whether each can be read, and which operations are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from surehand.assemble.openapi_documents import build_openapi_provider
from surehand.cli.doctor_checks import Finding
from surehand.cli.options import error_message
from surehand.config.config import Config
from surehand.config.errors import ConfigError
from surehand.config.openapi_section import OpenApiEntry
from surehand.core.errors import DefinitionError, ToolError

MAX_NAMED_OPERATIONS = 5


async def check_documents(config: Config, environment: Mapping[str, str]) -> list[Finding]:
    """Import every document of the configuration, and compile all its operations."""
    return [await _check_document(config, entry, environment) for entry in config.openapi]


async def _check_document(config: Config, entry: OpenApiEntry, environment: Mapping[str, str]) -> Finding:
    subject = f"openapi {entry.name}"
    try:
        # Without the lock file, which a check must not write.
        provider = build_openapi_provider(config, replace(entry, lock=None), environment)
        await provider.start()
    except (ConfigError, DefinitionError, ToolError) as error:
        problem, _, fix = error_message(error).partition(" Fix: ")
        return Finding(subject, "fail", problem, fix)
    try:
        skipped = provider.check_operations()
        count = provider.operation_count
    finally:
        await provider.stop()
    details = {"operations": count, "skipped": [list(each) for each in skipped]}
    if not skipped:
        return Finding(subject, "ok", f"{count:,} operations", details=details)
    named = "; ".join(f"{label}: {reason.rstrip('.')}" for label, reason in skipped[:MAX_NAMED_OPERATIONS])
    more = f"; and {len(skipped) - MAX_NAMED_OPERATIONS} more" if len(skipped) > MAX_NAMED_OPERATIONS else ""
    message = f"{count:,} operations, {len(skipped):,} left out. {named}{more}."
    return Finding(subject, "warn", message, "correct the document; all other operations work.", details)
