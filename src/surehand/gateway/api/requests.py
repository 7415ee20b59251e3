"""What routes have in common: the identity of the caller, pages of lists, and outcomes as HTTP responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from surehand.core.outcome import Done, Failed, Outcome
from surehand.gateway.access.access_control import identity_of
from surehand.gateway.access.identity import Identity
from surehand.gateway.events.event_json import outcome_to_json
from surehand.gateway.problems import STATUS_BY_CODE, Problem
from surehand.store.serialization import dump_json

MAX_PAGE_ITEMS = 200
MAX_NUMBER_DIGITS = 18


async def current_identity(request: Request) -> Identity:  # FastAPI runs a plain function in a thread
    """On whose behalf the request is made."""
    return identity_of(request)


Caller = Annotated[Identity, Depends(current_identity)]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE_ITEMS, description="Items of the page.")]
Cursor = Annotated[str | None, Query(max_length=400, description="`next` of the page before.")]
SessionFilter = Annotated[str | None, Query(min_length=1, max_length=200, description="Only those of this session.")]


def json_response(value: Any, status: int = 200) -> Response:
    """A JSON response; values that JSON cannot hold become strings."""
    return Response(dump_json(value), status, media_type="application/json")


def page_response(items: Sequence[Any], next_cursor: str | None) -> Response:
    """A page of a list."""
    return json_response({"items": items, "next": next_cursor})


def outcome_response(outcome: Outcome, call_id: str | None = None) -> Response:
    """The outcome of a call: 200 if it ended, 202 if it waits."""
    body = outcome_to_json(outcome, call_id or None)
    return json_response(body, 200 if isinstance(outcome, (Done, Failed)) else 202)


def raise_if_refused(outcome: Outcome, *codes: str, call_id: str | None = None) -> None:
    """Raise `Problem` if the request was refused with one of the codes before any handler ran."""
    if isinstance(outcome, Failed) and outcome.code in codes and not outcome.executed:
        code = outcome.code
        retry_after = (outcome.retry_after or 1.0) if STATUS_BY_CODE[code] in (429, 503) else None
        extra = {"call_id": call_id or outcome.meta.call_id}
        raise Problem(code, outcome.message, retry_after=retry_after, **{name: v for name, v in extra.items() if v})


def parse_time_cursor(cursor: str | None) -> tuple[float, str] | None:
    """The position in a list by time, as `time:id`; raises `Problem` for what no page has given."""
    if cursor is None:
        return None
    time, _, item_id = cursor.partition(":")
    try:
        position = float(time), item_id
    except ValueError:
        position = 0.0, ""
    if not item_id or not 0 < position[0] < 1e12:
        raise Problem("bad_request", f"{cursor[:80]!r} is not a cursor.")
    return position


def is_number(text: str) -> bool:
    """Whether a text is a whole number from 0 on that a database can hold."""
    return text.isascii() and text.isdigit() and len(text) <= MAX_NUMBER_DIGITS
