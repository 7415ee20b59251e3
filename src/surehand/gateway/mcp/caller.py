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

TASKS = "io.modelcontextprotocol/tasks"
LONGEST = 100
"""Characters of a client's name that are kept."""


class Caller(NamedTuple):
    """Who sent a request."""

    user: str | None
    modern: bool
    """Whether the protocol is one without sessions, where nothing is asked within a request."""
    form: bool
    """Whether its person can be shown a form."""
    url: bool
    """Whether its person can be sent to an address."""
    tasks: bool
    """Whether it may be given a task in place of a result."""
    by: str = "mcp"
    """Who answers through it, for the audit: the client, as it calls itself."""


def caller_of(ctx: ServerRequestContext[Any, Any], user: str | None) -> Caller:
    """Who sent a request; `user` where it does not say."""
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    asks = modern or ctx.session.can_send_request
    caller = caller_with(ctx.session.client_capabilities, user_of(ctx) or user, modern=modern, asks=asks)
    return caller._replace(by=_by(ctx.session.client_params))


def caller_with(known: ClientCapabilities | None, user: str | None, *, modern: bool, asks: bool) -> Caller:
    """A caller that can do this much, where there is a way to ask it."""
    form, url = _asked(known) if asks else (False, False)
    return Caller(user, modern, form, url, modern and known is not None and _has_tasks(known))


def user_of(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Whom the token of a request stands for; None if there was none."""
    return user_in(getattr(ctx.request, "scope", None) or {})


def user_in(scope: Mapping[str, Any]) -> str | None:
    """The same, where the library has not seen the request."""
    return _named(getattr(scope["user"], "access_token", None)) if "user" in scope else None


def current_user() -> str | None:
    """The same of the request that runs, where the library does not say which one that is."""
    return _named(get_access_token())


def _named(token: AccessToken | None) -> str | None:
    return None if token is None else token.subject or token.client_id


def _by(said: InitializeRequestParams | None) -> str:
    name = clean_line(said.client_info.name, LONGEST) if said is not None else ""
    return f"mcp:{name}" if name else "mcp"


def _asked(known: ClientCapabilities | None) -> tuple[bool, bool]:
    """Forms and addresses; a client that says no more than that it can be asked means forms."""
    if known is None or known.elicitation is None:
        return False, False
    can = known.elicitation
    return can.form is not None or can.url is None, can.url is not None


def _has_tasks(known: ClientCapabilities) -> bool:
    return TASKS in (known.extensions or {})
