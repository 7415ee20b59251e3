"""Builds the HTTP gateway of a runtime from the section `gateway` of a configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from surehand.config.gateway_section import AnswerSettings, GatewaySettings, TokenSettings, WebhookSettings
from surehand.config.parsers import expand_variables
from surehand.core.errors import DefinitionError
from surehand.gateway.access.answers import AnswerRule
from surehand.gateway.access.request_limits import GatewayLimits
from surehand.gateway.access.tokens import Token, bearer_tokens, operator_token
from surehand.gateway.agent_runs import ServedAgent
from surehand.gateway.http_app import GatewayApp, app
from surehand.gateway.webhooks.webhook import Webhook
from surehand.observe.metrics import metrics

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from surehand.runtime.runtime import Runtime


def build_gateway(
    runtime: Runtime,
    settings: GatewaySettings,
    *,
    agents: Iterable[ServedAgent] = (),
    token: str | None = None,
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    port: int | None = None,
    url: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> GatewayApp:
    """The gateway app of a runtime; raises `ConfigError` for mistakes in the section.

    Args:
        token: the operator's token.
        url: where it is served, for links to it, unless the section has a `public_url`.
        environment: has the secrets of webhooks.
    """
    tokens, rules = check_gateway(settings)
    webhooks = build_webhooks(settings, os.environ if environment is None else environment)
    if token is not None:
        tokens.append(operator_token(token))
    return app(
        runtime,
        agents=agents,
        auth=bearer_tokens(*tokens) if tokens else None,
        answers=rules,
        webhooks=webhooks,
        public_url=settings.public_url or url,
        hosts=[*hosts, *settings.allow_hosts],
        origins=[*origins, *settings.allow_origins],
        port=port,
        limits=GatewayLimits(**settings.limits),
        registry=_build_registry(runtime),
    )


def check_gateway(settings: GatewaySettings) -> tuple[list[Token], list[AnswerRule]]:
    """The tokens and the answer rules of the section; raises `ConfigError` for mistakes."""
    return [_build_token(each) for each in settings.tokens], [_build_rule(each) for each in settings.answers]


def _build_token(settings: TokenSettings) -> Token:
    try:
        return Token(settings.hash, **settings.options)
    except DefinitionError as error:
        raise settings.node.error(error.problem, error.fix) from None


def _build_rule(settings: AnswerSettings) -> AnswerRule:
    try:
        return AnswerRule(settings.by, **settings.options)
    except DefinitionError as error:
        raise settings.node.error(error.problem, error.fix) from None


def build_webhooks(settings: GatewaySettings, environment: Mapping[str, str]) -> list[Webhook]:
    """The webhooks of the section with their secrets; raises `ConfigError` for mistakes, and unset variables."""
    webhooks = [_build_webhook(each, environment) for each in settings.webhooks]
    names = [each.name for each in webhooks]
    for settings_of_webhook in settings.webhooks:
        if names.count(settings_of_webhook.name) > 1:
            problem = f"Two webhooks are called {settings_of_webhook.name}."
            raise settings_of_webhook.node.error(problem, "give each a name of its own.")
    return webhooks


def _build_webhook(settings: WebhookSettings, environment: Mapping[str, str]) -> Webhook:
    secrets = []
    for variable in settings.secret_env:
        if not (secret := environment.get(variable)):
            raise settings.node.error(
                f"Webhook {settings.name} needs the environment variable {variable}, which is not set."
            )
        secrets.append(secret)
    url = None if settings.url is None else expand_variables(settings.url, environment)
    try:
        return Webhook(settings.name, tuple(secrets), url, **settings.options)
    except DefinitionError as error:
        raise settings.node.error(error.problem, error.fix) from None


def _build_registry(runtime: Runtime) -> CollectorRegistry | None:
    """The metrics of the runtime's calls; None without prometheus-client, which `/metrics` then asks for."""
    try:
        from prometheus_client import CollectorRegistry  # an extra
    except ImportError:
        return None
    registry = CollectorRegistry()
    metrics(runtime, registry)
    return registry
