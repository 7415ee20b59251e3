"""Trouble: what an error of a connection means for the request that met it."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from toolwright.core.errors import Code, DefinitionError, Denied, NotStarted, ToolError
from toolwright.core.sanitize import clean_line


class CannotStart(NotStarted):
    """The server cannot be reached, nor will it be until somebody changes something."""


class NotSignedIn(Denied):
    """Whoever asks is not signed in; somebody else may be."""


class Nameless(NotStarted):
    """What says who asks is not to be had for nobody in particular."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What an error means for the request that met it, and for the connection."""

    sent: bool
    """Whether the request had left: then nobody knows what it did, unless the server answered."""
    gone: bool
    """Whether the connection, or its session, is of no more use and has to be made anew."""
    message: str
    """For a person or a model; no secret is in it."""
    answered: bool = False
    """Whether it is the server's own answer to the request."""
    status: int | None = None
    """Of HTTP."""
    hopeless: bool = False
    """Whether another try cannot help until somebody changes something."""
    stranger: bool = False
    """Whether it is because of who asks: somebody else may be let in."""
    code: Code | None = None
    """How the call has failed, where it is known better than by all else."""
    stale: bool = False
    """Whether the server turned it away because its headers follow an older list of the tools."""
    cause: BaseException | None = None
    """What was raised, where the library was not told of it in its own terms."""

    @property
    def again(self) -> bool:
        """Whether it surely did nothing, and may well arrive if it is sent once more."""
        return not (self.sent or self.answered or self.hopeless)


class Met(Exception):
    """A route's own word on what became of a request."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


MOST_WORDS = 1_900
"""Characters of what a server says is wrong."""
_MARK = f"trouble-{secrets.token_hex(8)}"
"""The name under which an error carries the number of its trouble. Servers do not know it, so none can pretend."""
_TOLD: OrderedDict[str, Trouble] = OrderedDict()
_MOST_TOLD = 256


def tell(trouble: Trouble) -> dict[str, str]:
    """The `data` of an error that is handed to the library, by which `trouble_of` finds the trouble again."""
    number = secrets.token_hex(8)
    _TOLD[number] = replace(trouble, cause=None)  # it would keep alive all that it passed through
    while len(_TOLD) > _MOST_TOLD:
        _TOLD.popitem(last=False)
    return {_MARK: number}


CONNECTION_CLOSED, REQUEST_TIMEOUT = -32000, -32001
INVALID_REQUEST, METHOD_NOT_FOUND, INTERNAL_ERROR, PARSE_ERROR = -32600, -32601, -32603, -32700
"""The library's own numbers; importing it takes a second."""


_CLOSED = "Connection closed"
"""What the library says under the first of them."""


def trouble_of(error: BaseException) -> Trouble:
    """What an error that came out of the library, or of a route, means."""
    error = inmost(error)
    if isinstance(error, Met):
        return error.trouble
    if isinstance(error, ToolError):
        hopeless, stranger = isinstance(error, (CannotStart, Denied)), isinstance(error, (NotSignedIn, Nameless))
        return Trouble(error.executed, True, str(error), hopeless=hopeless, stranger=stranger, cause=error)
    if isinstance(error, DefinitionError):
        return Trouble(False, True, str(error), hopeless=True, cause=error)
    if hasattr(error, "error") and hasattr(error, "code"):
        return _of_rpc(error.code, str(error), getattr(error, "data", None))
    if type(error).__module__.partition(".")[0] == "httpx2":
        from toolwright.providers.mcp.routes.web import trouble

        return trouble(error)
    if type(error).__name__ in ("ClosedResourceError", "BrokenResourceError", "EndOfStream"):
        return Trouble(True, True, "The connection to the server is closed.", cause=error)
    return Trouble(True, True, f"The connection to the server failed: {words(error)}.", cause=error)


def _of_rpc(code: int, message: str, data: Any) -> Trouble:
    """The library's own errors and those of a server look the same: what a server says is only ever its own words."""
    if isinstance(data, Mapping) and (told := _TOLD.get(str(data.get(_MARK)))) is not None:
        return told
    if code == CONNECTION_CLOSED and message.startswith("SSE stream"):  # over HTTP; what carries others still stands
        return Trouble(True, False, f"The answer broke off before it was whole ({clean_line(message)}).")
    if code == CONNECTION_CLOSED and message == _CLOSED:  # many servers have the same number for whatever is wrong
        return Trouble(True, True, _sentence(message))
    if code == REQUEST_TIMEOUT:
        return Trouble(True, False, _sentence(message))
    return Trouble(True, False, clean_line(message, MOST_WORDS), answered=True)


def inmost(error: BaseException) -> BaseException:
    """The error itself, or the first of a group that is no mere cancellation."""
    while isinstance(error, BaseExceptionGroup):
        telling = [each for each in error.exceptions if type(each).__name__ != "CancelledError"]
        error = telling[0] if telling else error.exceptions[0]
    return error


def words(error: BaseException) -> str:
    """What an error of foreign code says, on one line."""
    text = clean_line(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _sentence(message: str) -> str:
    text = clean_line(message, 500).rstrip(".") or "the connection broke off"
    return f"{text[0].upper()}{text[1:]}."
