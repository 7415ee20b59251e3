"""Connection errors, and what each means for its request: was it sent, is the connection lost, may it be retried.

Addresses, transports and connections use it. It does not load the MCP SDK.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from surehand.core.errors import DefinitionError, Denied, FailureCode, NotStarted, ToolError
from surehand.core.sanitize import clean_line


class PermanentConnectionError(NotStarted):
    """The server cannot be reached until its configuration changes."""


class NotSignedIn(Denied):
    """This user is not signed in; another user may be."""


class UserRequired(NotStarted):
    """The connection needs a user, and the call is anonymous."""


@dataclass(frozen=True, slots=True)
class ConnectionFailure:
    """What an error means for the request that met it, and for the connection."""

    was_sent: bool
    """Whether the request was sent. If so, its effect is unknown unless the server answered."""
    is_connection_lost: bool
    """Whether the connection or its session is lost, and has to be opened again."""
    message: str
    """For a person or a model; contains no secret."""
    is_server_answer: bool = False
    """Whether it is the server's own answer to the request."""
    status: int | None = None
    """The HTTP status."""
    is_permanent: bool = False
    """Whether retrying cannot help until the configuration changes."""
    depends_on_user: bool = False
    """Whether another user may be admitted."""
    code: FailureCode | None = None
    """The failure code of the call, if the other fields do not determine it."""
    has_stale_headers: bool = False
    """Whether the server refused headers of a call that follow from an old list of its tools."""
    cause: BaseException | None = None
    """The original exception, if any."""

    @property
    def is_retryable(self) -> bool:
        """Whether the request had no effect, and may succeed if it is sent again."""
        return not (self.was_sent or self.is_server_answer or self.is_permanent)


class RequestFailed(Exception):
    """Raised by a transport for one failed request. The connection stays open."""

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
    """Remember a failure, and return the `data` of a JSON-RPC error from which `failure_from_error` finds it again.

    The error passes through the MCP SDK, which would lose everything but its code, message and data.
    """
    token = secrets.token_hex(8)
    _remembered_failures[token] = replace(failure, cause=None)  # its traceback would keep the frames of the call alive
    while len(_remembered_failures) > _MAX_REMEMBERED_FAILURES:
        _remembered_failures.popitem(last=False)
    return {_FAILURE_KEY: token}


CONNECTION_CLOSED = -32000
REQUEST_TIMEOUT = -32001
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603
PARSE_ERROR = -32700
"""The JSON-RPC error codes of `mcp_types`, which takes about a second to import."""


_CONNECTION_CLOSED_MESSAGE = "Connection closed"
"""The message of the MCP SDK's own error with the code CONNECTION_CLOSED."""


def failure_from_error(error: BaseException) -> ConnectionFailure:
    """The failure that an error of the MCP SDK, of httpx2 or of a transport means."""
    error = innermost_error(error)
    if isinstance(error, RequestFailed):
        return error.failure
    if isinstance(error, ToolError):
        return ConnectionFailure(
            was_sent=error.executed,
            is_connection_lost=True,
            message=str(error),
            is_permanent=isinstance(error, (PermanentConnectionError, Denied)),
            depends_on_user=isinstance(error, (NotSignedIn, UserRequired)),
            cause=error,
        )
    if isinstance(error, DefinitionError):
        return ConnectionFailure(
            was_sent=False, is_connection_lost=True, message=str(error), is_permanent=True, cause=error
        )
    # By the name of the package: importing mcp or httpx2 to compare classes takes about a second.
    package = type(error).__module__.partition(".")[0]
    if package == "mcp" and _is_protocol_error(error):
        return _failure_from_protocol_error(error)
    if package == "httpx2":
        return failure_from_http_error(error)
    if type(error).__name__ in ("ClosedResourceError", "BrokenResourceError", "EndOfStream"):
        return ConnectionFailure(
            was_sent=True, is_connection_lost=True, message="The connection to the server is closed.", cause=error
        )
    return ConnectionFailure(
        was_sent=True,
        is_connection_lost=True,
        message=f"The connection to the server failed: {describe_error(error)}.",
        cause=error,
    )


def _is_protocol_error(error: BaseException) -> bool:
    from mcp import MCPError  # loaded already: the error comes from this package

    return isinstance(error, MCPError)


def _failure_from_protocol_error(error: Any) -> ConnectionFailure:
    """The failure of an `MCPError`, which comes from the MCP SDK or from the server.

    Both look the same: the message of a server must never change what happens to the connection.
    """
    code: int = error.code
    message = str(error)
    data = error.data
    if isinstance(data, Mapping):
        remembered = _remembered_failures.get(str(data.get(_FAILURE_KEY)))
        if remembered is not None:
            return remembered
    if code == CONNECTION_CLOSED and message.startswith("SSE stream"):  # over HTTP, other requests are not affected
        return ConnectionFailure(
            was_sent=True,
            is_connection_lost=False,
            message=f"The answer broke off before it was whole ({clean_line(message)}).",
        )
    # The message counts too: many servers use this code for errors of their own.
    if code == CONNECTION_CLOSED and message == _CONNECTION_CLOSED_MESSAGE:
        return ConnectionFailure(was_sent=True, is_connection_lost=True, message=_as_sentence(message))
    if code == REQUEST_TIMEOUT:
        return ConnectionFailure(was_sent=True, is_connection_lost=False, message=_as_sentence(message))
    return ConnectionFailure(
        was_sent=True,
        is_connection_lost=False,
        message=clean_line(message, MAX_ERROR_MESSAGE_LENGTH),
        is_server_answer=True,
    )


def innermost_error(error: BaseException) -> BaseException:
    """The error itself, or the first of a group that is not a cancellation."""
    while isinstance(error, BaseExceptionGroup):
        causes = [inner for inner in error.exceptions if type(inner).__name__ != "CancelledError"]
        error = causes[0] if causes else error.exceptions[0]
    return error


def describe_error(error: BaseException) -> str:
    """Type and message of an exception, on one line."""
    text = clean_line(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _as_sentence(message: str) -> str:
    text = clean_line(message, 500).rstrip(".") or "the connection broke off"
    return f"{text[0].upper()}{text[1:]}."


def too_large_failure(problem: str) -> ConnectionFailure:
    """The failure of a request whose response is too large to be read."""
    message = f"The answer has {problem} in it, which is not read. Ask for less at once."
    return ConnectionFailure(
        was_sent=True, is_connection_lost=False, message=message, is_server_answer=True, code="too_large"
    )


def failure_from_http_error(error: BaseException) -> ConnectionFailure:
    """The failure that an error of `httpx2` means."""
    import httpx2  # loaded already: the error is one of its own

    if isinstance(error, httpx2.HTTPStatusError):
        return failure_from_status(error.request.url.host, error.response.status_code)
    if isinstance(error.__cause__, ToolError):  # raised by the guard or its transport
        return _failure_from_guard_error(error.__cause__, error)
    errors_before_sending = (
        httpx2.ConnectError,
        httpx2.ConnectTimeout,
        httpx2.PoolTimeout,
        httpx2.UnsupportedProtocol,
    )
    was_sent = not isinstance(error, errors_before_sending)
    message = f"The server broke off ({type(error).__name__})." if was_sent else "The server could not be reached."
    return ConnectionFailure(was_sent=was_sent, is_connection_lost=not was_sent, message=message, cause=error)


def _failure_from_guard_error(reason: ToolError, error: BaseException) -> ConnectionFailure:
    return ConnectionFailure(
        was_sent=reason.executed,
        is_connection_lost=not reason.executed,
        message=str(reason),
        is_permanent=isinstance(reason, Denied),
        depends_on_user=isinstance(reason, NotSignedIn),
        cause=error,
    )


_STATUS_MESSAGES = {
    401: "It asks for a login (401): give `auth`, or a token in `headers`.",
    403: "It does not let us in (403): the token, or the user that it belongs to, lacks the right.",
    404: "There is no such address (404). Is the URL right?",
    405: "Requests of this kind are not taken here (405). Is the URL right?",
    429: "It asks to slow down (429).",
}
_AMBIGUOUS_STATUSES = frozenset({408, 409, 425, 429, 499})
"""Proxies send these statuses too: whether the server received the request is unknown."""


def failure_from_status(host: str, status: int, *, has_session: bool = False) -> ConnectionFailure:
    """The failure that an HTTP error status means, if the body does not say more.

    Args:
        has_session: whether the request belonged to an MCP session.
    """
    if has_session and status in (404, 410):
        return ConnectionFailure(
            was_sent=False,
            is_connection_lost=True,
            message="The server does not know this session any more.",
            status=status,
        )
    message = f"{host}: {_STATUS_MESSAGES.get(status, f'It answered with status {status}.')}"
    if status in (401, 403):  # refused before any work is done
        return ConnectionFailure(
            was_sent=False,
            is_connection_lost=False,
            message=message,
            status=status,
            is_permanent=True,
            depends_on_user=True,
        )
    answered = status < 500 and status not in _AMBIGUOUS_STATUSES
    return ConnectionFailure(
        was_sent=True, is_connection_lost=False, message=message, status=status, is_server_answer=answered
    )
