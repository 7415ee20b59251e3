"""Gateways: ways for other programs to reach a runtime. Each is imported on first use, with its dependencies."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from surehand.core.errors import DefinitionError
from surehand.core.extras import install_command

if TYPE_CHECKING:
    from surehand.gateway import mcp as mcp
    from surehand.gateway.access.answers import AnswerRule as AnswerRule
    from surehand.gateway.access.identity import Identity as Identity
    from surehand.gateway.access.request_limits import GatewayLimits as GatewayLimits
    from surehand.gateway.access.tokens import Token as Token
    from surehand.gateway.access.tokens import bearer_tokens as bearer_tokens
    from surehand.gateway.access.tokens import hash_token as hash_token
    from surehand.gateway.access.tokens import new_token as new_token
    from surehand.gateway.access.tokens import operator_token as operator_token
    from surehand.gateway.http_app import app as app
    from surehand.gateway.webhooks.signatures import InvalidSignature as InvalidSignature
    from surehand.gateway.webhooks.signatures import new_webhook_secret as new_webhook_secret
    from surehand.gateway.webhooks.signatures import sign_webhook as sign_webhook
    from surehand.gateway.webhooks.signatures import verify_webhook as verify_webhook
    from surehand.gateway.webhooks.webhook import Webhook as Webhook

__all__ = [
    "AnswerRule",
    "GatewayLimits",
    "Identity",
    "InvalidSignature",
    "Token",
    "Webhook",
    "app",
    "bearer_tokens",
    "hash_token",
    "mcp",
    "new_token",
    "new_webhook_secret",
    "operator_token",
    "sign_webhook",
    "verify_webhook",
]

_MODULE_OF_NAME = {
    "AnswerRule": "access.answers",
    "GatewayLimits": "access.request_limits",
    "Identity": "access.identity",
    "InvalidSignature": "webhooks.signatures",
    "Token": "access.tokens",
    "Webhook": "webhooks.webhook",
    "app": "http_app",
    "bearer_tokens": "access.tokens",
    "hash_token": "access.tokens",
    "new_token": "access.tokens",
    "new_webhook_secret": "webhooks.signatures",
    "operator_token": "access.tokens",
    "sign_webhook": "webhooks.signatures",
    "verify_webhook": "webhooks.signatures",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "mcp":
        return import_module(f"{__name__}.mcp")
    try:
        return getattr(import_module(f"{__name__}.{_MODULE_OF_NAME[name]}"), name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == __name__.partition(".")[0]:
            raise
        raise DefinitionError(f"Serving over HTTP needs {missing}.", fix=install_command("mcp", "server")) from error
