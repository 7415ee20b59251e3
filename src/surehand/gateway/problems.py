"""Errors of the HTTP API as problem details (RFC 9457), each with one of our codes."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from surehand.store.database import StoreError, UnstorableValue
from surehand.store.serialization import dump_json

PROBLEM_MEDIA_TYPE = "application/problem+json"
STATUS_BY_CODE: Mapping[str, int] = {
    "bad_request": 400,
    "unauthorized": 401,
    "denied": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "expired": 410,
    "too_large": 413,
    "unsupported_media_type": 415,
    "misdirected": 421,
    "invalid_arguments": 422,
    "rate_limited": 429,
    "unavailable": 503,
}
"""The codes of problems. Failed calls with other codes have the status 200, as results of the call."""
_CODE_BY_STATUS = {status: code for code, status in STATUS_BY_CODE.items()}
MAX_REPORTED_ERRORS = 5


class Problem(HTTPException):
    """An error whose response is problem details. `extra` are further members, such as `call_id`."""

    def __init__(self, code: str, detail: str, *, retry_after: float | None = None, **extra: Any) -> None:
        headers = None if retry_after is None else {"Retry-After": str(max(ceil(retry_after), 1))}
        super().__init__(STATUS_BY_CODE[code], detail, headers)
        self.code = code
        self.extra = extra


def problem_response(
    status: int,
    code: str,
    detail: str,
    headers: Mapping[str, str] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Response:
    """The response for an error."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        **(extra or {}),
    }
    return Response(dump_json(body), status, headers, PROBLEM_MEDIA_TYPE)


def respond_with_problems(api: FastAPI) -> None:
    """Respond to the errors of an API with problem details."""

    async def on_http_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = error.code if isinstance(error, Problem) else _CODE_BY_STATUS.get(error.status_code, "failed")
        extra = error.extra if isinstance(error, Problem) else {}
        return problem_response(error.status_code, code, str(error.detail), error.headers, extra)

    async def on_invalid_request(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        errors = error.errors()
        is_malformed = any(each["type"] == "json_invalid" for each in errors)
        code = "bad_request" if is_malformed else "invalid_arguments"
        detail = "; ".join(_describe_error(each) for each in errors[:MAX_REPORTED_ERRORS])
        return problem_response(STATUS_BY_CODE[code], code, f"The request is not valid: {detail}.")

    async def on_store_error(_: Request, error: Exception) -> Response:
        if isinstance(error, UnstorableValue):  # such as a NUL character: the same request would always fail
            code = "invalid_arguments"
            return problem_response(STATUS_BY_CODE[code], code, f"The request cannot be stored: {error}")
        return problem_response(503, "unavailable", f"The store cannot be used now: {error}", {"Retry-After": "1"})

    api.add_exception_handler(HTTPException, on_http_error)
    api.add_exception_handler(RequestValidationError, on_invalid_request)
    api.add_exception_handler(StoreError, on_store_error)


def _describe_error(error: Mapping[str, Any]) -> str:
    location = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"there is no field {location}"
    return f"{location}: {error['msg']}"
