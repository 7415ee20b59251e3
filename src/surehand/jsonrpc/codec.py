"""Parses and serializes JSON-RPC messages, and finds the id of a message that cannot be parsed.

Both MCP servers, the MCP client and the direct paths for `tools/call` read and write messages here and nowhere else.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

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

from surehand.jsonrpc.limits import MessageLimits, has_too_many_values

JsonRpcMessage: TypeAlias = JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError
MalformedReason: TypeAlias = Literal["too_long", "too_many_values", "not_json", "not_a_message", "id_too_long"]

_ID = rb'"id"\s*:\s*("[^"\\]{0,100}"|\d{1,18})\s*'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_METHOD = rb'"method"\s*:\s*"[^"\\]{0,100}"\s*'
_ID_AT_START = re.compile(
    rb"\s*\{\s*(?:"
    + _VERSION
    + rb",\s*|("
    + _METHOD
    + rb"),\s*)*"
    + _ID
    + rb"[,}]\s*(?:"
    + _VERSION
    + rb',\s*)?("method")?'
)
_ID_AT_END = re.compile(rb",\s*" + _ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*$")
ID_SEARCH_BYTES = 1 << 10
"""Bytes at either end of a message in which its id is looked for when it is not parsed."""

_RESPONSE_KEYS = frozenset({"jsonrpc", "id", "result"})


@dataclass(frozen=True, slots=True)
class OverlongFrame:
    """The two ends of a message that was longer than the limit; the rest was not kept."""

    head: bytes
    tail: bytes
    max_bytes: int


@dataclass(frozen=True, slots=True)
class MalformedMessage:
    """A message that was refused, and the error that its sender is answered with."""

    problem: MalformedReason
    code: int
    description: str
    id: RequestId | None = None
    """The id of the request or response, where it could be found."""
    is_response: bool = False
    """Whether it was meant as a response: then the waiting request gets the error, not the sender."""

    def as_error(self) -> JSONRPCError:
        """The error response."""
        return JSONRPCError(jsonrpc="2.0", id=self.id, error=ErrorData(code=self.code, message=self.description))


class SalvagedId(NamedTuple):
    """The id that was found in a message without parsing it."""

    id: RequestId
    is_request: bool
    """Whether a method stands beside the id. False for a response, and if the searched bytes do not show it."""


def decode(frame: bytes | OverlongFrame, limits: MessageLimits) -> JsonRpcMessage | MalformedMessage:
    """Parse one message."""
    value = parse_frame(frame, limits)
    return value if isinstance(value, MalformedMessage) else message_from_dict(value)


def parse_frame(frame: bytes | OverlongFrame, limits: MessageLimits) -> dict[str, Any] | MalformedMessage:
    """Parse one message into a plain dictionary, within the limits. `message_from_dict` checks its shape."""
    if isinstance(frame, OverlongFrame):
        description = f"The message is longer than {frame.max_bytes} bytes and was not read."
        return _unparsed_message("too_long", description, frame.head, frame.tail)
    if has_too_many_values(frame, limits.max_values):
        description = f"The message has more than {limits.max_values} values and was not read. Send less at once."
        return _unparsed_message("too_many_values", description, frame[:ID_SEARCH_BYTES], frame[-ID_SEARCH_BYTES:])
    try:
        value = from_json(frame, allow_inf_nan=limits.allow_non_finite)
    except ValueError as error:
        return MalformedMessage("not_json", PARSE_ERROR, f"Parse error: {error}")
    if not isinstance(value, dict):
        # JSON-RPC has batches; MCP removed them in its version 2025-06-18.
        kind = "a batch" if isinstance(value, list) else "not an object"
        description = f"The message is {kind}. Send one request, notification or response at a time."
        return MalformedMessage("not_a_message", INVALID_REQUEST, description)
    return _check_limits(value, len(frame), limits)


def _check_limits(value: dict[str, Any], size: int, limits: MessageLimits) -> dict[str, Any] | MalformedMessage:
    max_bytes = limits.max_initialize_bytes
    if max_bytes is not None and size > max_bytes and value.get("method") == "initialize":
        description = f"The initialize request is longer than {max_bytes} bytes. Send less about the client."
        return MalformedMessage("too_long", INVALID_REQUEST, description, _find_id(value, limits.max_id_length))
    if limits.max_id_length is not None and not has_short_ids(value, limits.max_id_length):
        description = f"The id or progressToken is longer than {limits.max_id_length} characters."
        return MalformedMessage("id_too_long", INVALID_REQUEST, description)
    return value


def message_from_dict(value: dict[str, Any]) -> JsonRpcMessage | MalformedMessage:
    """A parsed dictionary as a message of the MCP SDK."""
    # The keys say which kind it is. Letting the SDK's union try all four kinds takes five times as long.
    kind: type[JsonRpcMessage]
    if "method" in value:
        kind = JSONRPCRequest if "id" in value else JSONRPCNotification
    else:
        kind = JSONRPCError if "error" in value else JSONRPCResponse
    try:
        return kind.model_validate(value, by_name=False)
    except ValidationError:
        return _not_a_message(value)


def _not_a_message(value: dict[str, Any]) -> MalformedMessage:
    found_id = _find_id(value, None)
    if found_id is not None and "method" not in value and ("result" in value or "error" in value):
        description = "The message is not a valid JSON-RPC 2.0 response."
        return MalformedMessage("not_a_message", INVALID_REQUEST, description, found_id, is_response=True)
    description = "The message is not a JSON-RPC 2.0 request, notification or response."
    return MalformedMessage("not_a_message", INVALID_REQUEST, description, found_id)


def simple_response(value: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
    """The id and the result of a parsed dictionary that is a response in its simplest form, with a number as its id."""
    if value.keys() != _RESPONSE_KEYS or value["jsonrpc"] != "2.0":
        return None
    request_id = value["id"]
    result = value["result"]
    # `type`, not `isinstance`: True is an int, and no id.
    return (request_id, result) if type(request_id) is int and type(result) is dict else None


def has_short_ids(value: dict[str, Any], max_length: int) -> bool:
    """Whether a message's id and progress token are within the limit."""
    if not _is_short(value.get("id"), max_length):
        return False
    params = value.get("params")
    meta = params.get("_meta") if type(params) is dict else None
    return type(meta) is not dict or "progressToken" not in meta or _is_short(meta["progressToken"], max_length)


def _is_short(value: Any, max_length: int) -> bool:
    if type(value) is int:
        return value.bit_length() <= max_length
    return type(value) is not str or len(value) <= max_length


def _find_id(value: dict[str, Any], max_length: int | None) -> RequestId | None:
    message_id = value.get("id")
    if not isinstance(message_id, str) and type(message_id) is not int:
        return None
    return message_id if max_length is None or _is_short(message_id, max_length) else None


def _unparsed_message(problem: MalformedReason, description: str, head: bytes, tail: bytes) -> MalformedMessage:
    salvaged = salvage_id(head, tail)
    return MalformedMessage(problem, INVALID_REQUEST, description, None if salvaged is None else salvaged.id)


def salvage_id(head: bytes, tail: bytes) -> SalvagedId | None:
    """The id that stands first or last in a message that is not parsed, from its two ends."""
    at_start = _ID_AT_START.match(head)
    if at_start is not None:
        has_method = at_start[1] is not None or at_start[3] is not None
        return SalvagedId(json.loads(at_start[2]), has_method)
    at_end = _ID_AT_END.search(tail)
    return None if at_end is None else SalvagedId(json.loads(at_end[1]), b'"method"' in head)


def encode(message: JsonRpcMessage) -> bytes:
    """A message as JSON on one line, without a line break at its end."""
    try:
        if isinstance(message, JSONRPCError):
            return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        # Only fields that were set: `"id": null` and no id are not the same in JSON-RPC.
        fields = message.model_fields_set
        return to_json({name: value for name, value in message.__dict__.items() if name in fields}, inf_nan_mode="null")
    except (PydanticSerializationError, UnicodeEncodeError):
        return _encode_surrogates(message.model_dump(by_alias=True, exclude_unset=True))


def encode_request(request_id: RequestId, method: str, params: dict[str, Any]) -> bytes:
    """A request as JSON; raises `ValueError` for arguments that JSON cannot carry."""
    request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return to_json(request, inf_nan_mode="null")


def encode_result(request_id: RequestId, result: dict[str, Any]) -> bytes:
    """A successful response as JSON, without making a message of it first."""
    response = {"jsonrpc": "2.0", "id": request_id, "result": result}
    try:
        return to_json(response, inf_nan_mode="null")
    except (PydanticSerializationError, UnicodeEncodeError):
        return _encode_surrogates(response)


def encode_error(request_id: RequestId | None, error: ErrorData) -> bytes:
    """An error response as JSON."""
    return encode(JSONRPCError(jsonrpc="2.0", id=request_id, error=error))


def _encode_surrogates(value: dict[str, Any]) -> bytes:
    """UTF-8 cannot carry a lone surrogate: a question mark is written in its place."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
