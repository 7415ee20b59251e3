"""Redirect rules of the web client: where a redirect leads, and what of the request is sent there."""

from __future__ import annotations

from dataclasses import replace

from surehand.core.errors import Denied, InvalidArguments, ToolError
from surehand.http.headers import headers_for_another_origin, without_body_headers
from surehand.http.request import HttpRequest
from surehand.http.response import ResponseHead
from surehand.http.target import HttpTarget

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})


def follow_redirect(request: HttpRequest, head: ResponseHead, *, allow_downgrade: bool) -> HttpRequest | None:
    """The request that a redirect asks for; None if the response is no redirect. Raises `Denied`."""
    location = head.header("location")
    if head.status not in REDIRECT_STATUSES or not location:
        return None
    here = request.target
    there = _redirect_target(here, location)
    if here.scheme == "https" and there.scheme == "http" and not allow_downgrade:
        raise Denied(f"{here.host} redirects from https to http on {there.host}, which is not followed.")
    moved = replace(request, target=there)
    if _becomes_get(request.method, head.status):
        moved = replace(moved, method="GET", body=None, headers=without_body_headers(moved.headers))
    if there.origin != here.origin:
        if moved.body is not None:  # who approved the request approved sending this body to one host
            raise Denied(
                f"{here.host} asks to send the same to {there.host}. Send it there by itself if that is meant."
            )
        moved = replace(moved, headers=headers_for_another_origin(moved.headers))
    return moved


def _becomes_get(method: str, status: int) -> bool:
    """RFC 9110: 303 turns all but HEAD into GET, and clients turn a POST into GET on 301 and 302 as well."""
    return (status == 303 and method not in ("GET", "HEAD")) or (status in (301, 302) and method == "POST")


def _redirect_target(target: HttpTarget, location: str) -> HttpTarget:
    try:
        return target.join(location)
    except InvalidArguments as error:
        raise ToolError(f"{target.host} redirects to something that cannot be followed: {error}") from error
    except Denied as error:
        raise Denied(f"{target.host} redirects elsewhere. {error}") from error
