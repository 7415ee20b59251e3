"""Caller: who sent a request, and what can be asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from surehand.core.sanitize import clean_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.auth.provider import AccessToken
    from mcp.server.context import ServerRequestContext
    from mcp_types import ClientCapabilities, InitializeRequestParams

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
MAX_CLIENT_NAME_LENGTH = 100
"""Characters of a client's name that are kept."""


class Caller(NamedTuple):
    """Who sent a request."""

    user: str | None
    is_modern: bool
    """Whether the protocol is one without sessions, where nothing is asked within a request."""
    can_show_forms: bool
    """Whether its person can be shown a form."""
    can_open_urls: bool
    """Whether its person can be sent to an address."""
    supports_tasks: bool
    """Whether it may be given a task in place of a result."""
    answered_by: str = "mcp"
    """Who answers through it, for the audit: the client, as it calls itself."""


def caller_from_context(ctx: ServerRequestContext[Any, Any], default_user: str | None) -> Caller:
    """Who sent a request; `user` where it does not say."""
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    asks = modern or ctx.session.can_send_request
    caller = caller_from_capabilities(
        ctx.session.client_capabilities, request_user(ctx) or default_user, is_modern=modern, can_be_asked=asks
    )
    return caller._replace(answered_by=_answered_by(ctx.session.client_params))


def caller_from_capabilities(
    capabilities: ClientCapabilities | None, user: str | None, *, is_modern: bool, can_be_asked: bool
) -> Caller:
    """A caller that can do this much, where there is a way to ask it."""
    form, url = _elicitation_modes(capabilities) if can_be_asked else (False, False)
    return Caller(user, is_modern, form, url, is_modern and capabilities is not None and _supports_tasks(capabilities))


def request_user(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Whom the token of a request stands for; None if there was none."""
    return scope_user(getattr(ctx.request, "scope", None) or {})


def scope_user(scope: Mapping[str, Any]) -> str | None:
    """The same, where the library has not seen the request."""
    return _token_user(getattr(scope["user"], "access_token", None)) if "user" in scope else None


def current_user() -> str | None:
    """The same of the request that runs, where the library does not say which one that is."""
    return _token_user(get_access_token())


def _token_user(token: AccessToken | None) -> str | None:
    return None if token is None else token.subject or token.client_id


def _answered_by(client_params: InitializeRequestParams | None) -> str:
    name = clean_line(client_params.client_info.name, MAX_CLIENT_NAME_LENGTH) if client_params is not None else ""
    return f"mcp:{name}" if name else "mcp"


def _elicitation_modes(capabilities: ClientCapabilities | None) -> tuple[bool, bool]:
    """Forms and addresses; a client that says no more than that it can be asked means forms."""
    if capabilities is None or capabilities.elicitation is None:
        return False, False
    can = capabilities.elicitation
    return can.form is not None or can.url is None, can.url is not None


def _supports_tasks(capabilities: ClientCapabilities) -> bool:
    return TASKS_EXTENSION in (capabilities.extensions or {})
