"""Connection errors: what an error of a connection means for the request that met it."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from surehand.core.errors import DefinitionError, Denied, FailureCode, NotStarted, ToolError
from surehand.core.sanitize import clean_line


class PermanentConnectionError(NotStarted):
    """The server cannot be reached, and will not be until its configuration changes."""


class NotSignedIn(Denied):
    """This user is not signed in; another user may be."""


class UserRequired(NotStarted):
    """The connection needs a user, and this call has none."""


@dataclass(frozen=True, slots=True)
class ConnectionFailure:
    """What an error means for the request that met it, and for the connection."""

    was_sent: bool
    """Whether the request was sent. If so, its effect is unknown unless the server answered."""
    is_connection_lost: bool
    """Whether the connection, or its session, is lost and has to be made anew."""
    message: str
    """For a person or a model; contains no secret."""
    is_server_answer: bool = False
    """Whether it is the server's own answer to the request."""
    status: int | None = None
    """The HTTP status."""
    is_permanent: bool = False
    """Whether another try fails too until the configuration changes."""
    depends_on_user: bool = False
    """Whether it depends on the user: another user may be let in."""
    code: FailureCode | None = None
    """How the call failed, where the other fields do not say it."""
    has_stale_headers: bool = False
    """Whether the server refused the headers of a call because they follow an older list of its tools."""
    cause: BaseException | None = None
    """The exception, where there was one."""

    @property
    def is_retryable(self) -> bool:
        """Whether the request had no effect and may well succeed if it is sent again."""
        return not (self.was_sent or self.is_server_answer or self.is_permanent)


class RequestFailed(Exception):
    """Raised by a transport for one request that failed while the connection goes on."""

    def __init__(self, failure: ConnectionFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


MAX_ERROR_MESSAGE_LENGTH = 1_900
"""Characters of an error message of a server."""
_FAILURE_KEY = f"failure-{secrets.token_hex(8)}"
"""The key in an error's `data` under which its failure is found. It is random, so no server can pretend to know it."""
_remembered_failures: OrderedDict[str, ConnectionFailure] = OrderedDict()
_MAX_REMEMBERED_FAILURES = 256


def remember_failure(failure: ConnectionFailure) -> dict[str, str]:
    """The `data` of a JSON-RPC error that passes through the MCP SDK, by which `failure_of` finds the failure again."""
    token = secrets.token_hex(8)
    _remembered_failures[token] = replace(failure, cause=None)  # its traceback would keep every frame alive
    while len(_remembered_failures) > _MAX_REMEMBERED_FAILURES:
        _remembered_failures.popitem(last=False)
    return {_FAILURE_KEY: token}


CONNECTION_CLOSED, REQUEST_TIMEOUT = -32000, -32001
INVALID_REQUEST, METHOD_NOT_FOUND, INTERNAL_ERROR, PARSE_ERROR = -32600, -32601, -32603, -32700
"""The codes of `mcp_types`, which takes a second to import."""


_CONNECTION_CLOSED_MESSAGE = "Connection closed"
"""What the MCP SDK says under CONNECTION_CLOSED."""


def failure_from_error(error: BaseException) -> ConnectionFailure:
    """What an error of the MCP SDK or of a transport means."""
    error = innermost_error(error)
    if isinstance(error, RequestFailed):
        return error.failure
    if isinstance(error, ToolError):
        hopeless = isinstance(error, (PermanentConnectionError, Denied))
        stranger = isinstance(error, (NotSignedIn, UserRequired))
        return ConnectionFailure(
            error.executed, True, str(error), is_permanent=hopeless, depends_on_user=stranger, cause=error
        )
    if isinstance(error, DefinitionError):
        return ConnectionFailure(False, True, str(error), is_permanent=True, cause=error)
    package = type(error).__module__.partition(".")[0]  # the packages take a second to import, unless they are in use
    if package == "mcp" and _is_protocol_error(error):
        return _failure_from_protocol_error(error)
    if package == "httpx2":
        return failure_from_http_error(error)
    if type(error).__name__ in ("ClosedResourceError", "BrokenResourceError", "EndOfStream"):
        return ConnectionFailure(True, True, "The connection to the server is closed.", cause=error)
    return ConnectionFailure(True, True, f"The connection to the server failed: {describe_error(error)}.", cause=error)


def _is_protocol_error(error: BaseException) -> bool:
    from mcp import MCPError

    return isinstance(error, MCPError)


def _failure_from_protocol_error(error: Any) -> ConnectionFailure:
    """The MCP SDK's own errors and those of a server look the same: what a server says is never more than words."""
    code: int = error.code
    message = str(error)
    data = error.data
    if isinstance(data, Mapping) and (known := _remembered_failures.get(str(data.get(_FAILURE_KEY)))) is not None:
        return known
    if code == CONNECTION_CLOSED and message.startswith("SSE stream"):  # over HTTP, other requests are not affected
        return ConnectionFailure(True, False, f"The answer broke off before it was whole ({clean_line(message)}).")
    if (
        code == CONNECTION_CLOSED and message == _CONNECTION_CLOSED_MESSAGE
    ):  # many servers use this code for whatever is wrong
        return ConnectionFailure(True, True, _as_sentence(message))
    if code == REQUEST_TIMEOUT:
        return ConnectionFailure(True, False, _as_sentence(message))
    return ConnectionFailure(True, False, clean_line(message, MAX_ERROR_MESSAGE_LENGTH), is_server_answer=True)


def innermost_error(error: BaseException) -> BaseException:
    """The error itself, or the first of a group that is not a cancellation."""
    while isinstance(error, BaseExceptionGroup):
        causes = [each for each in error.exceptions if type(each).__name__ != "CancelledError"]
        error = causes[0] if causes else error.exceptions[0]
    return error


def describe_error(error: BaseException) -> str:
    """Type and message of an exception of foreign code, on one line."""
    text = clean_line(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _as_sentence(message: str) -> str:
    text = clean_line(message, 500).rstrip(".") or "the connection broke off"
    return f"{text[0].upper()}{text[1:]}."


def too_large_failure(problem: str) -> ConnectionFailure:
    """The failure of a request whose response is refused because of its size."""
    message = f"The answer has {problem} in it, which is not read. Ask for less at once."
    return ConnectionFailure(True, False, message, is_server_answer=True, code="too_large")


def failure_from_http_error(error: BaseException) -> ConnectionFailure:
    """What an error of `httpx2` means."""
    import httpx2

    if isinstance(error, httpx2.HTTPStatusError):
        return failure_from_status(error.request.url.host, error.response.status_code)
    if isinstance(error.__cause__, ToolError):  # raised by the guard or its transport
        return _failure_from_guard_error(error.__cause__, error)
    unsent_kinds = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
    unsent = isinstance(error, unsent_kinds)
    message = "The server could not be reached." if unsent else f"The server broke off ({type(error).__name__})."
    return ConnectionFailure(not unsent, unsent, message, cause=error)


def _failure_from_guard_error(reason: ToolError, error: BaseException) -> ConnectionFailure:
    unsent = not reason.executed
    hopeless = isinstance(reason, Denied)
    stranger = isinstance(reason, NotSignedIn)
    return ConnectionFailure(
        not unsent, unsent, str(reason), is_permanent=hopeless, depends_on_user=stranger, cause=error
    )


_STATUS_MESSAGES = {
    401: "It asks for a login (401): give `auth`, or a token in `headers`.",
    403: "It does not let us in (403): the token, or whoever it belongs to, lacks the right.",
    404: "There is no such address (404). Is the URL right?",
    405: "Requests of this kind are not taken here (405). Is the URL right?",
    429: "It asks to slow down (429).",
}
_AMBIGUOUS_STATUSES = frozenset({408, 409, 425, 429, 499})
"""Proxies send these too: how far the request came is unknown."""


def failure_from_status(host: str, status: int, *, has_session: bool = False) -> ConnectionFailure:
    """What an HTTP status other than success means, where the body does not say it.

    Args:
        session: whether the request belonged to an MCP session.
    """
    if has_session and status in (404, 410):
        return ConnectionFailure(False, True, "The server does not know this session any more.", status=status)
    message = f"{host}: {_STATUS_MESSAGES.get(status, f'It answered with status {status}.')}"
    if status in (401, 403):  # refused before any work is done
        return ConnectionFailure(False, False, message, status=status, is_permanent=True, depends_on_user=True)
    answered = status < 500 and status not in _AMBIGUOUS_STATUSES
    return ConnectionFailure(True, False, message, status=status, is_server_answer=answered)
