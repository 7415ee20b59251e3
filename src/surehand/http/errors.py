"""Translates errors of the network and of `httpcore2` into `ToolError`s that name the host and no secret."""

from __future__ import annotations

import errno
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from surehand.core.errors import InvalidArguments, NotStarted, TimedOut, ToolError, Unavailable

E = TypeVar("E", bound=ToolError)


def mark_unsent(error: E) -> E:
    """Mark an error as raised before anything was sent, so that the caller knows that nothing has happened."""
    error.executed = False
    return error


@contextmanager
def http_errors_as_tool_errors(host: str) -> Iterator[None]:
    """Raise errors of `httpcore2` inside the block as `ToolError`s; they name the host and nothing else of the URL."""
    import httpcore2 as http

    try:
        yield
    except http.PoolTimeout as error:
        raise NotStarted("Too many requests are under way at once. Try again later.") from error
    except http.ConnectTimeout as error:
        raise NotStarted(f"{host} could not be reached in time. Try again later.") from error
    except (http.TimeoutException, TimeoutError) as error:
        raise TimedOut(f"{host} did not answer in time.") from error
    except http.ConnectError as error:
        raise _unreachable_error(host, error) from error
    except http.LocalProtocolError as error:
        raise InvalidArguments(
            f"The request to {host} cannot be sent: its headers or its body are not well formed."
        ) from error
    except (http.RemoteProtocolError, http.UnsupportedProtocol) as error:
        raise Unavailable(f"{host} broke off, or answered with something that is not HTTP.") from error
    except (http.NetworkError, OSError) as error:
        raise Unavailable(f"The connection to {host} broke off. Try again later.") from error


def _unreachable_error(host: str, error: BaseException) -> ToolError:
    reason = _tls_reason(error)
    if reason is None:
        return NotStarted(
            f"{host} could not be reached{connect_failure_reason(error)}. Try again later, or use another source."
        )
    return mark_unsent(ToolError(f"No secure connection to {host}: {reason}."))


_CONNECT_REASONS = {
    errno.ECONNREFUSED: "connection refused",
    errno.EHOSTUNREACH: "no route to it",
    errno.ENETUNREACH: "no network leads there",
    errno.ETIMEDOUT: "timed out",
}


def connect_failure_reason(error: BaseException | None) -> str:
    """The system's reason for a connection that failed, in brackets; empty if it is not known."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        reason = _CONNECT_REASONS.get(error.errno or 0) if isinstance(error, OSError) else None
        if reason is not None:
            return f" ({reason})"
        error = error.__cause__ or error.__context__
    return ""


def _tls_reason(error: BaseException | None) -> str | None:
    """What is wrong with the certificate or the handshake; None if TLS did not fail."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not valid ({error.verify_message})"
        if isinstance(error, ssl.SSLError):
            return f"the handshake failed ({(error.reason or 'no reason given').lower().replace('_', ' ')})"
        error = error.__cause__ or error.__context__
    return None
