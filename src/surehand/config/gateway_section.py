"""Parser for the section `gateway` of the configuration: where `surehand serve` listens, and who may do what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import Any

from surehand.config.node import ConfigNode
from surehand.config.parsers import known_entries, read_positive_integer, read_size, read_text, read_texts
from surehand.core.durations import parse_rate

MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """A bearer token, by its hash, and whom it identifies."""

    node: ConfigNode
    hash: str
    options: Mapping[str, Any]
    """`user`, `scopes`, `name`, `expires_at`, `rate` and `concurrent`, as far as the file gives them."""


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """Who may answer the waits of some tools."""

    node: ConfigNode
    by: tuple[str, ...]
    options: Mapping[str, Any]
    """`tools` and `waiting_for`, as far as the file gives them."""


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """A program that calls that wait are announced to, and that may answer them."""

    node: ConfigNode
    name: str
    url: ConfigNode | None
    """Its `${NAME}` variables are replaced late, because a URL may hold a secret."""
    secret_env: tuple[str, ...]
    """The environment variables with its secrets."""
    options: Mapping[str, Any]
    """`tools`, `waiting_for`, `people` and `scopes`, as far as the file gives them."""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The section `gateway`."""

    host: str | None = None
    port: int | None = None
    token_env: str | None = None
    """The environment variable with the operator's token."""
    tokens: tuple[TokenSettings, ...] = ()
    answers: tuple[AnswerSettings, ...] = ()
    webhooks: tuple[WebhookSettings, ...] = ()
    public_url: str | None = None
    """The address for people, which announcements of waits link to."""
    allow_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)


def parse_gateway(node: ConfigNode) -> GatewaySettings:
    """Parse the section."""
    entries = known_entries(node, GATEWAY_PARSERS)
    return GatewaySettings(**{name: GATEWAY_PARSERS[name](entry) for name, entry in entries.items()})


def _read_port(node: ConfigNode) -> int:
    if isinstance(node.value, bool) or not isinstance(node.value, int) or not 0 <= node.value <= MAX_PORT:
        raise node.error(f"port must be a whole number from 0 to {MAX_PORT}.", "write port: 8765.")
    return node.value


def _read_text_tuple(node: ConfigNode) -> tuple[str, ...]:
    return tuple(read_texts(node))


def _read_rate(node: ConfigNode) -> str:
    try:
        parse_rate(read_text(node))
    except ValueError:
        raise node.error("rate must be a number of requests per unit of time.", "write 60/min.") from None
    return read_text(node)


def _read_moment(node: ConfigNode) -> datetime:
    """A date or a time. YAML and TOML have both as values of their own; a day ends a token at its beginning, in UTC."""
    value = node.value
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    if not isinstance(moment, datetime):
        raise node.error("expires must be a date or a time.", "write expires: 2030-01-31.")
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


TOKEN_PARSERS: Mapping[str, Callable[[ConfigNode], Any]] = {
    "hash": read_text,
    "user": read_text,
    "scopes": _read_text_tuple,
    "name": read_text,
    "expires": _read_moment,
    "rate": _read_rate,
    "concurrent": read_positive_integer,
}
ANSWER_PARSERS: Mapping[str, Callable[[ConfigNode], Any]] = {
    "by": _read_text_tuple,
    "tools": _read_text_tuple,
    "waiting_for": _read_text_tuple,
}
WEBHOOK_PARSERS: Mapping[str, Callable[[ConfigNode], Any]] = {
    "name": read_text,
    "url": read_text,
    "secret_env": _read_text_tuple,
    "tools": _read_text_tuple,
    "waiting_for": _read_text_tuple,
    "people": _read_text_tuple,
    "scopes": _read_text_tuple,
}
LIMIT_PARSERS: Mapping[str, Callable[[ConfigNode], int]] = {
    "requests": read_positive_integer,
    "requests_per_identity": read_positive_integer,
    "streams": read_positive_integer,
    "streams_per_identity": read_positive_integer,
    "body": read_size,
}


def _parse_tokens(node: ConfigNode) -> tuple[TokenSettings, ...]:
    tokens = []
    for item in node.items("write - {hash: ..., user: ada}; `surehand config token` prints an entry."):
        entries = known_entries(item, TOKEN_PARSERS)
        if "hash" not in entries:
            raise item.error("A token needs its hash.", "`surehand config token` prints an entry with it.")
        values = {name: TOKEN_PARSERS[name](entry) for name, entry in entries.items()}
        if "expires" in values:
            values["expires_at"] = values.pop("expires")
        tokens.append(TokenSettings(item, values.pop("hash"), values))
    return tuple(tokens)


def _parse_answers(node: ConfigNode) -> tuple[AnswerSettings, ...]:
    rules = []
    for item in node.items('write - {tools: "bank__*", by: [scope:approver]}.'):
        entries = known_entries(item, ANSWER_PARSERS)
        if "by" not in entries:
            raise item.error("A rule needs `by`.", "write by: [requester].")
        values = {name: ANSWER_PARSERS[name](entry) for name, entry in entries.items()}
        rules.append(AnswerSettings(item, values.pop("by"), values))
    return tuple(rules)


def _parse_webhooks(node: ConfigNode) -> tuple[WebhookSettings, ...]:
    webhooks = []
    for item in node.items("write - {name: ..., url: https://..., secret_env: NAME}."):
        entries = known_entries(item, WEBHOOK_PARSERS)
        for key in ("name", "secret_env"):
            if key not in entries:
                raise item.error(
                    f"A webhook needs `{key}`.", "write - {name: ..., url: https://..., secret_env: NAME}."
                )
        values = {name: WEBHOOK_PARSERS[name](entry) for name, entry in entries.items()}
        values.pop("url", None)
        webhooks.append(WebhookSettings(item, values.pop("name"), entries.get("url"), values.pop("secret_env"), values))
    return tuple(webhooks)


def _parse_limits(node: ConfigNode) -> dict[str, int]:
    entries = known_entries(node, LIMIT_PARSERS)
    limits = {name: LIMIT_PARSERS[name](entry) for name, entry in entries.items()}
    if "body" in limits:
        limits["body_bytes"] = limits.pop("body")
    return limits


GATEWAY_PARSERS: Mapping[str, Callable[[ConfigNode], Any]] = {
    "host": read_text,
    "port": _read_port,
    "token_env": read_text,
    "tokens": _parse_tokens,
    "answers": _parse_answers,
    "webhooks": _parse_webhooks,
    "public_url": read_text,
    "allow_hosts": _read_text_tuple,
    "allow_origins": _read_text_tuple,
    "limits": _parse_limits,
}
"""The keys of the section."""
