"""Builds the HTTP gateway of a runtime from the section `gateway` of a configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from surehand.config.gateway_section import AnswerSettings, GatewaySettings, TokenSettings
from surehand.core.errors import DefinitionError
from surehand.gateway.access.answers import AnswerRule
from surehand.gateway.access.request_limits import GatewayLimits
from surehand.gateway.access.tokens import Token, bearer_tokens, operator_token
from surehand.gateway.agent_runs import ServedAgent
from surehand.gateway.http_app import GatewayApp, app
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
) -> GatewayApp:
    """The gateway app of a runtime; raises `ConfigError` for mistakes in the section.

    Args:
        token: the operator's token.
    """
    tokens, rules = check_gateway(settings)
    if token is not None:
        tokens.append(operator_token(token))
    return app(
        runtime,
        agents=agents,
        auth=bearer_tokens(*tokens) if tokens else None,
        answers=rules,
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


def _build_registry(runtime: Runtime) -> CollectorRegistry | None:
    """The metrics of the runtime's calls; None without prometheus-client, which `/metrics` then asks for."""
    try:
        from prometheus_client import CollectorRegistry  # an extra
    except ImportError:
        return None
    registry = CollectorRegistry()
    metrics(runtime, registry)
    return registry
