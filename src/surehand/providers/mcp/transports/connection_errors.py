"""Connection errors: what an error of a connection means for the request that met it."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from surehand.core.errors import Code, DefinitionError, Denied, NotStarted, ToolError
from surehand.core.sanitize import clean_line


class CannotStart(NotStarted):
    """The server cannot be reached, and will not be until its configuration changes."""


class NotSignedIn(Denied):
    """This user is not signed in; another user may be."""


class Nameless(NotStarted):
    """The connection needs a user, and this call has none."""


@dataclass(frozen=True, slots=True)
class ConnectionFailure:
    """What an error means for the request that met it, and for the connection."""

    sent: bool
    """Whether the request was sent. If so, its effect is unknown unless the server answered."""
    gone: bool
    """Whether the connection, or its session, is lost and has to be made anew."""
    message: str
    """For a person or a model; contains no secret."""
    answered: bool = False
    """Whether it is the server's own answer to the request."""
    status: int | None = None
    """The HTTP status."""
    hopeless: bool = False
    """Whether another try fails too until the configuration changes."""
    stranger: bool = False
    """Whether it depends on the user: another user may be let in."""
    code: Code | None = None
    """How the call failed, where the other fields do not say it."""
    stale: bool = False
    """Whether the server refused the headers of a call because they follow an older list of its tools."""
    cause: BaseException | None = None
    """The exception, where there was one."""

    @property
    def again(self) -> bool:
        """Whether the request had no effect and may well succeed if it is sent again."""
        return not (self.sent or self.answered or self.hopeless)


class RequestFailed(Exception):
    """Raised by a transport for one request that failed while the connection goes on."""

    def __init__(self, failure: ConnectionFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


MAX_MESSAGE_LENGTH = 1_900
"""Characters of an error message of a server."""
_FAILURE_KEY = f"failure-{secrets.token_hex(8)}"
"""The key in an error's `data` under which its failure is found. It is random, so no server can pretend to know it."""
_failures: OrderedDict[str, ConnectionFailure] = OrderedDict()
_MAX_FAILURES = 256


def error_data(failure: ConnectionFailure) -> dict[str, str]:
    """The `data` of a JSON-RPC error that passes through the MCP SDK, by which `failure_of` finds the failure again."""
    token = secrets.token_hex(8)
    _failures[token] = replace(failure, cause=None)  # its traceback would keep every frame alive
    while len(_failures) > _MAX_FAILURES:
        _failures.popitem(last=False)
    return {_FAILURE_KEY: token}


CONNECTION_CLOSED, REQUEST_TIMEOUT = -32000, -32001
INVALID_REQUEST, METHOD_NOT_FOUND, INTERNAL_ERROR, PARSE_ERROR = -32600, -32601, -32603, -32700
"""The codes of `mcp_types`, which takes a second to import."""


_CLOSED = "Connection closed"
"""What the MCP SDK says under CONNECTION_CLOSED."""


def failure_of(error: BaseException) -> ConnectionFailure:
    """What an error of the MCP SDK or of a transport means."""
    error = innermost(error)
    if isinstance(error, RequestFailed):
        return error.failure
    if isinstance(error, ToolError):
        hopeless = isinstance(error, (CannotStart, Denied))
        stranger = isinstance(error, (NotSignedIn, Nameless))
        return ConnectionFailure(error.executed, True, str(error), hopeless=hopeless, stranger=stranger, cause=error)
    if isinstance(error, DefinitionError):
        return ConnectionFailure(False, True, str(error), hopeless=True, cause=error)
    package = type(error).__module__.partition(".")[0]  # the packages take a second to import, unless they are in use
    if package == "mcp" and _is_protocol_error(error):
        return _protocol_failure(error)
    if package == "httpx2":
        return http_failure(error)
    if type(error).__name__ in ("ClosedResourceError", "BrokenResourceError", "EndOfStream"):
        return ConnectionFailure(True, True, "The connection to the server is closed.", cause=error)
    return ConnectionFailure(True, True, f"The connection to the server failed: {describe(error)}.", cause=error)


def _is_protocol_error(error: BaseException) -> bool:
    from mcp import MCPError

    return isinstance(error, MCPError)


def _protocol_failure(error: Any) -> ConnectionFailure:
    """The MCP SDK's own errors and those of a server look the same: what a server says is never more than words."""
    code: int = error.code
    message = str(error)
    data = error.data
    if isinstance(data, Mapping) and (known := _failures.get(str(data.get(_FAILURE_KEY)))) is not None:
        return known
    if code == CONNECTION_CLOSED and message.startswith("SSE stream"):  # over HTTP, other requests are not affected
        return ConnectionFailure(True, False, f"The answer broke off before it was whole ({clean_line(message)}).")
    if code == CONNECTION_CLOSED and message == _CLOSED:  # many servers use this code for whatever is wrong
        return ConnectionFailure(True, True, _sentence(message))
    if code == REQUEST_TIMEOUT:
        return ConnectionFailure(True, False, _sentence(message))
    return ConnectionFailure(True, False, clean_line(message, MAX_MESSAGE_LENGTH), answered=True)


def innermost(error: BaseException) -> BaseException:
    """The error itself, or the first of a group that is not a cancellation."""
    while isinstance(error, BaseExceptionGroup):
        causes = [each for each in error.exceptions if type(each).__name__ != "CancelledError"]
        error = causes[0] if causes else error.exceptions[0]
    return error


def describe(error: BaseException) -> str:
    """Type and message of an exception of foreign code, on one line."""
    text = clean_line(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _sentence(message: str) -> str:
    text = clean_line(message, 500).rstrip(".") or "the connection broke off"
    return f"{text[0].upper()}{text[1:]}."


def too_large(problem: str) -> ConnectionFailure:
    """The failure of a request whose response is refused because of its size."""
    message = f"The answer has {problem} in it, which is not read. Ask for less at once."
    return ConnectionFailure(True, False, message, answered=True, code="too_large")


def http_failure(error: BaseException) -> ConnectionFailure:
    """What an error of `httpx2` means."""
    import httpx2

    if isinstance(error, httpx2.HTTPStatusError):
        return status_failure(error.request.url.host, error.response.status_code)
    if isinstance(error.__cause__, ToolError):  # raised by the guard or its transport
        return _guard_failure(error.__cause__, error)
    unsent_kinds = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
    unsent = isinstance(error, unsent_kinds)
    message = "The server could not be reached." if unsent else f"The server broke off ({type(error).__name__})."
    return ConnectionFailure(not unsent, unsent, message, cause=error)


def _guard_failure(reason: ToolError, error: BaseException) -> ConnectionFailure:
    unsent = not reason.executed
    hopeless = isinstance(reason, Denied)
    stranger = isinstance(reason, NotSignedIn)
    return ConnectionFailure(not unsent, unsent, str(reason), hopeless=hopeless, stranger=stranger, cause=error)


_STATUS_MESSAGES = {
    401: "It asks for a login (401): give `auth`, or a token in `headers`.",
    403: "It does not let us in (403): the token, or whoever it belongs to, lacks the right.",
    404: "There is no such address (404). Is the URL right?",
    405: "Requests of this kind are not taken here (405). Is the URL right?",
    429: "It asks to slow down (429).",
}
_AMBIGUOUS_STATUSES = frozenset({408, 409, 425, 429, 499})
"""Proxies send these too: how far the request came is unknown."""


def status_failure(host: str, status: int, *, session: bool = False) -> ConnectionFailure:
    """What an HTTP status other than success means, where the body does not say it.

    Args:
        session: whether the request belonged to an MCP session.
    """
    if session and status in (404, 410):
        return ConnectionFailure(False, True, "The server does not know this session any more.", status=status)
    message = f"{host}: {_STATUS_MESSAGES.get(status, f'It answered with status {status}.')}"
    if status in (401, 403):  # refused before any work is done
        return ConnectionFailure(False, False, message, status=status, hopeless=True, stranger=True)
    answered = status < 500 and status not in _AMBIGUOUS_STATUSES
    return ConnectionFailure(True, False, message, status=status, answered=answered)
