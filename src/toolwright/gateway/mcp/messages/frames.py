"""Frames: what came, a line or a body, as a message of the protocol, or as what is wrong with it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from toolwright.gateway.mcp.messages.bulk import MOST_VALUES, too_bulky

Message: TypeAlias = JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError

LONGEST_ID = 256
"""Characters of an id, or of a token of progress: what is sent to a client repeats them again and again."""
LARGEST_OPENING = 64 << 10
"""Bytes of `initialize`: what a client says of itself is kept as long as its session."""
_ID = rb'"id"\s*:\s*("[^"\\]{0,100}"|\d{1,18})\s*'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_METHOD = rb'"method"\s*:\s*"[^"\\]{0,100}"\s*'
_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*|" + _METHOD + rb",\s*)*" + _ID + rb",")
_ENDS = 1 << 10
_LAST = re.compile(rb",\s*" + _ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*$")


@dataclass(frozen=True, slots=True)
class Overlong:
    """A line that was too long to be kept."""

    head: bytes
    tail: bytes
    most: int
    """Bytes that it may have had."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """What came is no message; whoever sent it is told."""

    code: int
    problem: str
    id: RequestId | None = None
    is_answer: bool = False
    """Whether it was meant as an answer: then whoever waits for that is told, and not who sent it."""

    def message(self) -> JSONRPCError:
        """What is said about it."""
        return JSONRPCError(jsonrpc="2.0", id=self.id, error=ErrorData(code=self.code, message=self.problem))


class Call(NamedTuple):
    """A call of a tool, of which the library's model is made only where the library is to see it."""

    id: RequestId
    params: dict[str, Any]

    def message(self) -> JSONRPCRequest:
        """The same as the library has it."""
        return JSONRPCRequest(jsonrpc="2.0", id=self.id, method="tools/call", params=self.params)


_CALL = {"jsonrpc", "id", "method", "params"}
_NAMES = (int, str)


def read(line: bytes | Overlong) -> Message | Wrong:
    """A line as a message."""
    value = _parsed(line)
    return value if isinstance(value, Wrong) else _message(value)


def seen(line: bytes | Overlong) -> Message | Call | Wrong:
    """The same, where calls of tools are told apart before all else."""
    value = _parsed(line)
    if isinstance(value, Wrong):
        return value
    if value.get("method") == "tools/call" and value.keys() == _CALL and value["jsonrpc"] == "2.0":
        id, params = value["id"], value["params"]
        if type(id) in _NAMES and type(params) is dict:
            return Call(id, params)
    return _message(value)


def _parsed(line: bytes | Overlong) -> dict[str, Any] | Wrong:
    if isinstance(line, Overlong):
        return Wrong(INVALID_REQUEST, f"The message is longer than {line.most} bytes, and was not read.", _id_at(line))
    if too_bulky(line):
        return bulky(line)
    try:
        value = from_json(line, allow_inf_nan=False)
    except ValueError as error:
        return Wrong(PARSE_ERROR, f"Parse error: {error}")
    if not isinstance(value, dict):
        what = "a batch" if isinstance(value, list) else "no object"
        return Wrong(INVALID_REQUEST, f"This is {what}. Send one request, notification or response per line.")
    if len(line) > LARGEST_OPENING and value.get("method") == "initialize":
        return _refused(value, f"initialize has more than {LARGEST_OPENING} bytes. Say less of the client.")
    if not is_brief(value):
        return Wrong(INVALID_REQUEST, f"The id, or progressToken, has more than {LONGEST_ID} characters.")
    return value


def bulky(line: bytes) -> Wrong:
    """What is said about a message that is not read, because of all that is in it."""
    found = _FIRST.match(line) or _LAST.search(line[-_ENDS:])
    told = f"The message has too many values, more than {MOST_VALUES}, and was not read. Send less at once."
    return Wrong(INVALID_REQUEST, told, json.loads(found[1]) if found else None)


def is_brief(value: dict[str, Any]) -> bool:
    """Whether the names that a request has for itself are not too long."""
    if not _is_short(value.get("id")):
        return False
    params = value.get("params")
    meta = params.get("_meta") if type(params) is dict else None
    return type(meta) is not dict or "progressToken" not in meta or _is_short(meta["progressToken"])


def _is_short(name: Any) -> bool:
    return name.bit_length() <= LONGEST_ID if type(name) is int else type(name) is not str or len(name) <= LONGEST_ID


def _message(value: dict[str, Any]) -> Message | Wrong:
    # The kind is plain from the keys. Letting the library's union try all four would take five times as long.
    kind: type[Message]
    if "method" in value:
        kind = JSONRPCRequest if "id" in value else JSONRPCNotification
    else:
        kind = JSONRPCError if "error" in value else JSONRPCResponse
    try:
        return kind.__pydantic_validator__.validate_python(value)  # type: ignore[no-any-return]  # one of that kind
    except ValidationError:
        return _malformed(value)


def _known_id(value: dict[str, Any]) -> RequestId | None:
    found = value.get("id")
    return found if (isinstance(found, str) or type(found) is int) and _is_short(found) else None


def _refused(value: dict[str, Any], problem: str) -> Wrong:
    return Wrong(INVALID_REQUEST, problem, _known_id(value))


def _malformed(value: dict[str, Any]) -> Wrong:
    known = _known_id(value)
    if known is not None and "method" not in value and ("result" in value or "error" in value):
        return Wrong(INVALID_REQUEST, "This is no answer of JSON-RPC 2.0.", known, is_answer=True)
    return _refused(value, "This is no request, notification or response of JSON-RPC 2.0.")


def _id_at(line: Overlong) -> RequestId | None:
    """The id that stands first or last in a message that was not read."""
    found = _FIRST.match(line.head) or _LAST.search(line.tail)
    return json.loads(found[1]) if found else None


def answer(request: RequestId, result: dict[str, Any]) -> bytes:
    """The result of a request as a line."""
    value = {"jsonrpc": "2.0", "id": request, "result": result}
    try:
        return to_json(value, inf_nan_mode="null") + b"\n"
    except (PydanticSerializationError, UnicodeEncodeError):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"


def write(message: Message) -> bytes:
    """A message as a line."""
    try:
        if isinstance(message, JSONRPCError):
            return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        said = message.model_fields_set
        value = {name: each for name, each in message.__dict__.items() if name in said}
        return to_json(value, inf_nan_mode="null") + b"\n"
    except (PydanticSerializationError, UnicodeEncodeError):  # a lone surrogate, which no text on a wire can hold
        whole = message.model_dump(by_alias=True, exclude_unset=True)
        return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"
