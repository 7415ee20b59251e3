"""The envelope of a call: whether headers and metadata are regular. If not, the MCP SDK answers what is wrong."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, check_accept_headers
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PARAM_HEADER_PREFIX,
    MCP_PROTOCOL_VERSION_HEADER,
    X_MCP_HEADER_KEY,
    InboundModernRoute,
    classify_inbound_request,
)
from mcp_types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.methods import validate_client_request
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import from_json, to_json
from starlette.requests import Request

from surehand.gateway.mcp.direct_call import TOOLS_CALL_METHOD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Scope

MAX_CACHED_METADATA_BYTES = 4096
"""Bytes of a client's metadata whose validation is remembered: it sends the same with each request."""
_VERSION_HEADER = MCP_PROTOCOL_VERSION_HEADER.encode()
_METHOD_HEADER = MCP_METHOD_HEADER.encode()
_NAME_HEADER = MCP_NAME_HEADER.encode()
_PARAM_HEADER_PREFIX = MCP_PARAM_HEADER_PREFIX.lower().encode()
_SESSION_ID_HEADER = MCP_SESSION_ID_HEADER.encode()
_MODERN_VERSIONS = {each.encode() for each in MODERN_PROTOCOL_VERSIONS}
_TOOLS_CALL_HEADER = TOOLS_CALL_METHOD.encode()
_MESSAGE_KEYS = {"jsonrpc", "id", "method", "params"}
_PLAIN_HEADER_TEXT = re.compile(r"[0-9A-Za-z_./-]+")


def regular_headers(scope: Scope) -> dict[bytes, bytes] | None:
    """The headers of a JSON request that accepts any response; None if one is repeated or has parameters."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    if len(headers) != len(scope["headers"]) or headers.get(b"content-type") != b"application/json":
        return None
    return headers if _accepts_any_response(headers.get(b"accept", b"")) else None


@lru_cache(maxsize=64)
def _accepts_any_response(accept: bytes) -> bool:
    return all(check_accept_headers(Request({"type": "http", "headers": [(b"accept", accept)]})))


def is_regular_call(message: dict[str, Any], scope: Scope) -> bool:
    """Whether a message is a call in the protocol without sessions whose headers agree with its body."""
    headers = regular_headers(scope)
    if headers is None or headers.get(_METHOD_HEADER) != _TOOLS_CALL_HEADER or _SESSION_ID_HEADER in headers:
        return False
    if b"\n" + _PARAM_HEADER_PREFIX in b"\n".join(headers):
        return False
    return (
        _is_tools_call(message) and _headers_agree(message, headers) and _is_valid_metadata(message["params"]["_meta"])
    )


def _is_tools_call(message: dict[str, Any]) -> bool:
    if message.keys() != _MESSAGE_KEYS or message["jsonrpc"] != "2.0" or message["method"] != TOOLS_CALL_METHOD:
        return False
    return type(message["id"]) in (int, str)


def _headers_agree(message: dict[str, Any], headers: Mapping[bytes, bytes]) -> bool:
    """Whether the headers name the same version and tool as the body, verbatim or encoded as the SDK knows it."""
    params = message["params"]
    meta = params.get("_meta") if type(params) is dict else None
    if type(meta) is dict and CLIENT_CAPABILITIES_META_KEY in meta:
        version = headers.get(_VERSION_HEADER)
        is_verbatim = version == _as_header(meta.get(PROTOCOL_VERSION_META_KEY))
        if is_verbatim and headers.get(_NAME_HEADER) == _as_header(params.get("name")):
            return version in _MODERN_VERSIONS
    routing = {
        name.decode(): headers[name].decode("latin-1")
        for name in (_VERSION_HEADER, _METHOD_HEADER, _NAME_HEADER)
        if name in headers
    }
    return isinstance(classify_inbound_request(message, headers=routing), InboundModernRoute)


def _as_header(text: Any) -> bytes:
    """A text as it stands in a header without encoding; otherwise bytes that are in no header."""
    return text.encode() if type(text) is str and _PLAIN_HEADER_TEXT.fullmatch(text) else b"\0"


def _is_valid_metadata(meta: dict[str, Any]) -> bool:
    try:
        encoded = to_json(meta)
    except ValueError:
        return False
    return len(encoded) <= MAX_CACHED_METADATA_BYTES and _is_valid_encoded_metadata(encoded)


@lru_cache(maxsize=256)
def _is_valid_encoded_metadata(encoded: bytes) -> bool:
    meta = from_json(encoded)
    try:
        validate_client_request(TOOLS_CALL_METHOD, meta[PROTOCOL_VERSION_META_KEY], {"name": "any", "_meta": meta})
    except ValidationError:
        return False
    return True


def has_header_parameters(schema: Any) -> bool:
    """Whether a tool wants some of its arguments repeated in headers."""
    return X_MCP_HEADER_KEY.encode() in to_json(schema, fallback=str)
