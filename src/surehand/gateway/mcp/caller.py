"""The caller of a request: which user it is for, and what its client can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from surehand.core.sanitize import clean_line
from surehand.runtime.pending.pending_call import PendingCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.auth.provider import AccessToken
    from mcp.server.context import ServerRequestContext
    from mcp_types import ClientCapabilities, InitializeRequestParams

MayAnswer: TypeAlias = Callable[[PendingCall], bool]
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
MAY_ANSWER_KEY = "surehand.may_answer"
"""The key of an ASGI scope under which the app around this one says which calls the user may answer."""
COUNT_REQUEST_KEY = "surehand.count_request"
"""The key of an ASGI scope under which the app around this one counts requests: a context, or None for one too many."""
MAX_CLIENT_NAME_LENGTH = 100
"""Characters of a client's name in the audit."""


class Caller(NamedTuple):
    """The user of a request and the capabilities of its client."""

    user: str | None
    is_modern: bool
    """Whether the request uses the modern protocol, which has no sessions and no requests to the client."""
    can_show_forms: bool
    """Whether the client can show a form to its user."""
    can_open_urls: bool
    """Whether the client can send its user to an address."""
    supports_tasks: bool
    """Whether the client accepts a task as the result of a call."""
    answered_by: str = "mcp"
    """The client's name for itself, which the audit stores with its answers."""
    may_answer: MayAnswer | None = None
    """Whether the user may answer a call that waits; None if the server leaves every answer to the requester."""


def caller_from_context(ctx: ServerRequestContext[Any, Any], default_user: str | None) -> Caller:
    """The caller of a request that the MCP SDK handles. `default_user` counts if the request has no token."""
    is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    caller = caller_from_capabilities(
        ctx.session.client_capabilities,
        request_user(ctx) or default_user,
        is_modern=is_modern,
        can_be_asked=is_modern or ctx.session.can_send_request,
    )
    may_answer = _asgi_scope(ctx).get(MAY_ANSWER_KEY)
    return caller._replace(answered_by=_answered_by(ctx.session.client_params), may_answer=may_answer)


def caller_from_capabilities(
    capabilities: ClientCapabilities | None, user: str | None, *, is_modern: bool, can_be_asked: bool
) -> Caller:
    """The caller with these capabilities. Without a way to ask it, its elicitation capabilities do not count."""
    form, url = _elicitation_modes(capabilities) if can_be_asked else (False, False)
    supports_tasks = is_modern and capabilities is not None and _supports_tasks(capabilities)
    return Caller(user, is_modern, form, url, supports_tasks)


def request_user(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """The user of the request's token; None without a token."""
    return scope_user(_asgi_scope(ctx))


def _asgi_scope(ctx: ServerRequestContext[Any, Any]) -> Mapping[str, Any]:
    return getattr(ctx.request, "scope", None) or {}


def scope_user(scope: Mapping[str, Any]) -> str | None:
    """The user of an ASGI scope, for requests that the MCP SDK does not handle; None without a token."""
    return _token_user(getattr(scope["user"], "access_token", None)) if "user" in scope else None


def current_user() -> str | None:
    """The user of the running request, for callbacks to which the MCP SDK does not pass the request."""
    return _token_user(get_access_token())


def _token_user(token: AccessToken | None) -> str | None:
    return None if token is None else token.subject or token.client_id


def _answered_by(client_params: InitializeRequestParams | None) -> str:
    name = clean_line(client_params.client_info.name, MAX_CLIENT_NAME_LENGTH) if client_params is not None else ""
    return f"mcp:{name}" if name else "mcp"


def _elicitation_modes(capabilities: ClientCapabilities | None) -> tuple[bool, bool]:
    """Whether the client supports forms and addresses. An empty `elicitation` capability means forms."""
    if capabilities is None or capabilities.elicitation is None:
        return False, False
    elicitation = capabilities.elicitation
    has_url = elicitation.url is not None
    return elicitation.form is not None or not has_url, has_url


def _supports_tasks(capabilities: ClientCapabilities) -> bool:
    return TASKS_EXTENSION in (capabilities.extensions or {})
