"""Plain HTTP for models: a request as they wrote it, and what came back."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator

from surehand.builtin.web.text_decoding import decode_text, is_text
from surehand.core.errors import InvalidArguments
from surehand.core.sanitize import strip_hidden
from surehand.http.client import HttpClient
from surehand.http.headers import CONNECTION_HEADERS
from surehand.http.response import HttpResponse

HttpMethod: TypeAlias = Annotated[
    Literal["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"],
    BeforeValidator(lambda given: given.upper() if isinstance(given, str) else given),
]
RequestBody: TypeAlias = str | dict[str, Any] | list[Any] | None

_SECRET_HEADERS = frozenset(
    {"set-cookie", "set-cookie2", "authorization", "authentication-info", "proxy-authentication-info", "x-api-key"}
)
"""Headers of an answer that hold what could be used in somebody's name: a model has no use for them."""


async def send_request(
    client: HttpClient,
    method: HttpMethod,
    url: str,
    headers: Mapping[str, str] | None,
    body: RequestBody = None,
    *,
    idempotency_key: str | None = None,
) -> dict[str, Any]:
    """Make a request; any answer is a success, also one that says no."""
    if body is not None and method in ("GET", "HEAD"):
        raise InvalidArguments(f"A {method} request has no body. Put what you want to say into the URL, or use POST.")
    sent, content_type = _encode_body(body)
    given = dict(headers or {})
    if content_type and not any(name.lower() == "content-type" for name in given):
        given["Content-Type"] = content_type
    response = await client.request(
        method, url, headers=given, body=sent, idempotency_key=idempotency_key, truncate=True
    )
    return _render_response(response)


def _encode_body(body: RequestBody) -> tuple[bytes | None, str]:
    if body is None:
        return None, ""
    if not isinstance(body, str):
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"), "application/json"
    return body.encode("utf-8", "replace"), "application/json" if _is_json(body) else "text/plain; charset=utf-8"


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _render_response(response: HttpResponse) -> dict[str, Any]:
    shown = {
        "status": response.status,
        "statusText": strip_hidden(response.reason),
        "url": response.url,
        "method": response.method,
        "headers": _render_headers(response),
        **_render_body(response),
    }
    return {**shown, "truncated": True} if response.truncated else shown


def _render_headers(response: HttpResponse) -> dict[str, str]:
    shown = dict[str, str]()
    for name, value in response.headers:
        known = name.lower()
        if known not in _SECRET_HEADERS and known not in CONNECTION_HEADERS - {"content-length"}:
            shown[known] = f"{shown[known]}, {strip_hidden(value)}" if known in shown else strip_hidden(value)
    return shown


def _render_body(response: HttpResponse) -> dict[str, str]:
    kind = response.header("content-type")
    if "charset=" in kind.lower() or kind.lower().startswith("text/") or is_text(response.body):
        return {"body": strip_hidden(decode_text(response.body, kind))}
    return {"body": base64.b64encode(response.body).decode(), "encoding": "base64"}
