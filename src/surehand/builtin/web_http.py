"""Plain HTTP for models: a request as they wrote it, and what came back."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator

from surehand.builtin.web_text import decoded, is_text
from surehand.core.errors import InvalidArguments
from surehand.core.sanitize import strip_hidden
from surehand.http.client import Client
from surehand.http.headers import CONNECTION_HEADERS
from surehand.http.response import Response

Method: TypeAlias = Annotated[
    Literal["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"],
    BeforeValidator(lambda given: given.upper() if isinstance(given, str) else given),
]
Body: TypeAlias = str | dict[str, Any] | list[Any] | None

_SECRET = frozenset(
    {"set-cookie", "set-cookie2", "authorization", "authentication-info", "proxy-authentication-info", "x-api-key"}
)
"""Headers of an answer that hold what could be used in somebody's name: a model has no use for them."""


async def exchange(
    client: Client,
    method: Method,
    url: str,
    headers: Mapping[str, str] | None,
    body: Body = None,
    *,
    idempotency_key: str | None = None,
) -> dict[str, Any]:
    """Make a request; any answer is a success, also one that says no."""
    if body is not None and method in ("GET", "HEAD"):
        raise InvalidArguments(f"A {method} request has no body. Put what you want to say into the URL, or use POST.")
    sent, content_type = _encoded(body)
    given = dict(headers or {})
    if content_type and not any(name.lower() == "content-type" for name in given):
        given["Content-Type"] = content_type
    response = await client.request(method, url, headers=given, body=sent, idempotency_key=idempotency_key, cut=True)
    return _shown(response)


def _encoded(body: Body) -> tuple[bytes | None, str]:
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


def _shown(response: Response) -> dict[str, Any]:
    shown = {
        "status": response.status,
        "statusText": strip_hidden(response.reason),
        "url": response.url,
        "method": response.method,
        "headers": _headers(response),
        **_body(response),
    }
    return {**shown, "truncated": True} if response.truncated else shown


def _headers(response: Response) -> dict[str, str]:
    shown = dict[str, str]()
    for name, value in response.headers:
        known = name.lower()
        if known not in _SECRET and known not in CONNECTION_HEADERS - {"content-length"}:
            shown[known] = f"{shown[known]}, {strip_hidden(value)}" if known in shown else strip_hidden(value)
    return shown


def _body(response: Response) -> dict[str, str]:
    kind = response.header("content-type")
    if "charset=" in kind.lower() or kind.lower().startswith("text/") or is_text(response.body):
        return {"body": strip_hidden(decoded(response.body, kind))}
    return {"body": base64.b64encode(response.body).decode(), "encoding": "base64"}
