"""Envelope: whether all that stands around a call is as it should be. If not, the library says what is wrong."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http import check_accept_headers
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

from toolwright.gateway.mcp.messages.frames import is_brief

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Scope

_ROUTING = [each.encode() for each in (MCP_PROTOCOL_VERSION_HEADER, MCP_METHOD_HEADER, MCP_NAME_HEADER)]
_VERSIONS = {each.encode() for each in MODERN_PROTOCOL_VERSIONS}
_PLAIN = re.compile(r"[0-9A-Za-z_./-]+")
_PARAM = MCP_PARAM_HEADER_PREFIX.lower().encode()
_SESSION = b"mcp-session-id"
_KEYS = {"jsonrpc", "id", "method", "params"}
_CALL = "tools/call"
_LONG = 4096
"""Bytes of what a client says about itself that are remembered as good."""


def headers_of(scope: Scope) -> dict[bytes, bytes] | None:
    """The headers of a request that can be answered in any way; None if one is there twice, or may mean more."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    if len(headers) != len(scope["headers"]) or headers.get(b"content-type") != b"application/json":
        return None
    return headers if _takes_all(headers.get(b"accept", b"")) else None


@lru_cache(maxsize=64)
def _takes_all(accept: bytes) -> bool:
    return all(check_accept_headers(Request({"type": "http", "headers": [(b"accept", accept)]})))


def modern_call(body: bytes, scope: Scope) -> dict[str, Any] | None:
    """A call in the newer protocol, whose headers say what its body does."""
    headers = headers_of(scope)
    if headers is None or headers.get(b"mcp-method") != _CALL.encode() or _SESSION in headers:
        return None
    if b"\n" + _PARAM in b"\n".join(headers):
        return None
    message = _read(body)
    if message is None or not _agree(message, headers):
        return None
    return message if _is_known(message["params"]["_meta"]) else None


def _agree(message: dict[str, Any], headers: Mapping[bytes, bytes]) -> bool:
    """Whether headers say what the message does: letter for letter, or in one of the ways that the library knows."""
    params = message["params"]
    meta = params.get("_meta") if type(params) is dict else None
    if type(meta) is dict and CLIENT_CAPABILITIES_META_KEY in meta:
        said = headers.get(_ROUTING[0]), headers.get(_ROUTING[2])
        if said == (_letters(meta.get(PROTOCOL_VERSION_META_KEY)), _letters(params.get("name"))):
            return said[0] in _VERSIONS
    return isinstance(classify_inbound_request(message, headers=_routing(headers)), InboundModernRoute)


def _letters(text: Any) -> bytes:
    """A text as a header says it, where that is plain; else what no header says."""
    return text.encode() if type(text) is str and _PLAIN.fullmatch(text) else b"\0"


def _read(body: bytes) -> dict[str, Any] | None:
    """The request that came, if it is one."""
    try:
        message = from_json(body, allow_inf_nan=False)
    except ValueError:
        return None
    if type(message) is not dict or message.keys() != _KEYS or message["jsonrpc"] != "2.0":
        return None
    if type(message["id"]) not in (int, str) or message["method"] != _CALL or not is_brief(message):
        return None
    return message


def _routing(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): headers[name].decode("latin-1") for name in _ROUTING if name in headers}


def _is_known(meta: dict[str, Any]) -> bool:
    """Whether what a client says about itself is well-formed; it says the same each time."""
    try:
        said = to_json(meta)
    except ValueError:
        return False
    return len(said) <= _LONG and _is_sound(said)


@lru_cache(maxsize=256)
def _is_sound(meta: bytes) -> bool:
    told = from_json(meta)
    try:
        validate_client_request(_CALL, told[PROTOCOL_VERSION_META_KEY], {"name": "any", "_meta": told})
    except ValidationError:
        return False
    return True


def says_headers(schema: Any) -> bool:
    """Whether a tool wants some of its arguments in headers too."""
    return X_MCP_HEADER_KEY.encode() in to_json(schema, fallback=str)
