"""What `surehand doctor` finds out about webhooks: whether their secrets are set, and what was delivered."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from surehand.cli.doctor_checks import Finding
from surehand.config.config import Config
from surehand.config.errors import ConfigError
from surehand.config.store_address import is_server_address
from surehand.core.errors import DefinitionError
from surehand.store.errors import StoreError
from surehand.store.store import Store
from surehand.store.tables.webhooks import WebhookSummary


async def check_webhooks(
    config: Config, environment: Mapping[str, str], store_override: str | None = None
) -> list[Finding]:
    """One finding for each webhook of the configuration."""
    webhooks = config.gateway.webhooks
    if not webhooks:
        return []
    summaries = await _read_summaries(config, environment, store_override)
    findings = []
    for webhook in webhooks:
        unset = [name for name in webhook.secret_env if not environment.get(name)]
        if unset:
            problem = f"the environment variables of its secrets are not set: {', '.join(unset)}."
            findings.append(Finding(f"webhook {webhook.name}", "fail", problem, "set them before `surehand serve`."))
        else:
            findings.append(_check_deliveries(webhook.name, summaries.get(webhook.name)))
    return findings


async def _read_summaries(
    config: Config, environment: Mapping[str, str], store_override: str | None
) -> dict[str, WebhookSummary]:
    """What the store knows, by name; nothing if it cannot be opened, of which there is another finding."""
    try:
        address = _existing_store(config, environment, store_override)
        if address is None:
            return {}
        async with Store.open(address) as store:
            return {each.name: each for each in await store.webhooks.summaries()}
    except (ConfigError, DefinitionError, StoreError, OSError):
        return {}


def _existing_store(config: Config, environment: Mapping[str, str], store_override: str | None) -> str | None:
    address = store_override or (config.store.resolve_address(environment) if config.store else None)
    if address is None or (not is_server_address(address) and not Path(address).exists()):
        return None
    return address


def _check_deliveries(name: str, summary: WebhookSummary | None) -> Finding:
    subject = f"webhook {name}"
    if summary is None:
        return Finding(subject, "ok", "has delivered nothing yet.")
    message = f"{summary.delivered} delivered, {summary.waiting} to send, {summary.failed} given up"
    details = {"delivered": summary.delivered, "waiting": summary.waiting, "failed": summary.failed}
    if summary.failing_since is not None:
        since = datetime.fromtimestamp(summary.failing_since, UTC).strftime("%Y-%m-%d %H:%M")
        message += f"; it has failed since {since} UTC"
    if summary.last_error is None:
        return Finding(subject, "ok", f"{message}.", details=details)
    problem = f"{message}: {summary.last_error}"
    return Finding(subject, "warn", problem, "check its URL, and the program behind it.", details)
