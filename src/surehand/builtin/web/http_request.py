"""The work of `http_get`, `http_post` and `http_request`: send a request and return the response.

The data is a JSON object; a model is shown status, headers and body as lines, so that a long body can be read by line.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator

from surehand.core.content import Text
from surehand.core.errors import InvalidArguments
from surehand.core.outcome import Done
from surehand.core.sanitize import strip_hidden
from surehand.http.client import HttpClient
from surehand.http.headers import CONNECTION_HEADERS
from surehand.http.request import build_request
from surehand.http.response import HttpResponse
from surehand.http.settings import HttpSettings
from surehand.http.text_decoding import decode_text, is_text

HttpMethod: TypeAlias = Annotated[
    Literal["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"],
    BeforeValidator(lambda method: method.upper() if isinstance(method, str) else method),
]
RequestBody: TypeAlias = str | dict[str, Any] | list[Any] | None

_SECRET_HEADERS = frozenset(
    {"set-cookie", "set-cookie2", "authorization", "authentication-info", "proxy-authentication-info", "x-api-key"}
)
"""Response headers with credentials, which a model must not see."""


async def send_request(
    client: HttpClient,
    method: HttpMethod,
    url: str,
    headers: Mapping[str, str] | None,
    body: RequestBody = None,
    *,
    idempotency_key: str | None = None,
) -> Done:
    """Send a request and return the response; a status such as 404 is not an error."""
    _refuse_unexpected_body(method, body)
    raw_body, content_type = _encode_body(body)
    request_headers = dict(headers or {})
    if content_type and not any(name.lower() == "content-type" for name in request_headers):
        request_headers["Content-Type"] = content_type
    response = await client.request(
        method, url, headers=request_headers, body=raw_body, idempotency_key=idempotency_key, truncate=True
    )
    data = _render_response(response)
    return Done(data, content=[Text(_render_lines(data))])


def check_request(
    settings: HttpSettings, method: str, url: str, headers: Mapping[str, str] | None = None, body: RequestBody = None
) -> None:
    """Raise for a request that cannot be sent, without a look-up in DNS: that would send the host's name out."""
    _refuse_unexpected_body(method, body)
    raw_body, _ = _encode_body(body)
    target = build_request(method, url, headers, raw_body).target
    settings.build_guard().check_target(target.host, target.port)


def _refuse_unexpected_body(method: str, body: RequestBody) -> None:
    if body is not None and method in ("GET", "HEAD"):
        raise InvalidArguments(f"A {method} request has no body. Put what you want to say into the URL, or use POST.")


def _encode_body(body: RequestBody) -> tuple[bytes | None, str]:
    """The bytes of a body and their content type."""
    if body is None:
        return None, ""
    if isinstance(body, str):
        text = body
        content_type = "application/json" if _is_json(body) else "text/plain; charset=utf-8"
    else:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False)
        content_type = "application/json"
    return text.encode("utf-8", "replace"), content_type


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except (ValueError, RecursionError):
        return False


def _render_response(response: HttpResponse) -> dict[str, Any]:
    rendered = {
        "status": response.status,
        "statusText": strip_hidden(response.reason),
        "url": response.url,
        "method": response.method,
        "headers": _render_headers(response),
        **_render_body(response),
    }
    return {**rendered, "truncated": True} if response.truncated else rendered


def _render_lines(data: Mapping[str, Any]) -> str:
    """A response as a model is shown it."""
    status = f"{data['status']} {data['statusText']}".strip()
    lines = [f"{data['method']} {data['url']}", f"HTTP status: {status}"]
    lines += [f"{name}: {value}" for name, value in data["headers"].items()]
    if "encoding" in data:
        lines.append(f"(the body below is binary, written as {data['encoding']})")
    if "truncated" in data:
        lines.append("(the body below is only the beginning: the response is larger than what is read of it)")
    return "\n".join([*lines, "", data["body"]])


def _render_headers(response: HttpResponse) -> dict[str, str]:
    left_out = _SECRET_HEADERS | (CONNECTION_HEADERS - {"content-length"})
    rendered = dict[str, str]()
    for raw_name, raw_value in response.headers:
        name = raw_name.lower()
        if name in left_out:
            continue
        value = strip_hidden(raw_value)
        rendered[name] = f"{rendered[name]}, {value}" if name in rendered else value
    return rendered


def _render_body(response: HttpResponse) -> dict[str, str]:
    content_type = response.header("content-type")
    declares_text = "charset=" in content_type.lower() or content_type.lower().startswith("text/")
    if declares_text or is_text(response.body):
        return {"body": strip_hidden(decode_text(response.body, content_type))}
    return {"body": base64.b64encode(response.body).decode(), "encoding": "base64"}
