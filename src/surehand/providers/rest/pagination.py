"""Pagination: follow links or cursors to further pages of a list, up to a limit, and put the pages together."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from urllib.parse import quote

from surehand.core.content import Json, Text
from surehand.core.errors import DefinitionError, Denied, InvalidArguments, ToolError
from surehand.core.outcome import Done
from surehand.core.redaction import Redactor
from surehand.http.request import HttpRequest
from surehand.http.response import HttpResponse, ResponseHead
from surehand.providers.rest.auth import Auth
from surehand.providers.rest.fields import PickPath
from surehand.providers.rest.response_body import parse_body, run_by_size
from surehand.providers.rest.response_reader import ResponseReader, done_with_clean_text, read_error
from surehand.providers.rest.sender import RestSender
from surehand.providers.rest.template import PathStep, parse_path, scalar_text, value_at

DEFAULT_MAX_PAGES = 10
MAX_PAGES = 1_000
_LINK = re.compile(r"<([^<>]{1,8192})>((?:\s*;\s*[\w*-]+\s*=\s*(?:\"[^\"]*\"|[^\s\",;]+))*)")
_NEXT = re.compile(r";\s*rel\s*=\s*(?:\"(?:[^\"]*\s)?next(?:\s[^\"]*)?\"|next(?=[\s;,]|\Z))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class LinkHeader:
    """The next page is the `Link` header with `rel="next"`."""


@dataclass(frozen=True, slots=True)
class NextLink:
    """The next page is a URL in the body."""

    path: tuple[PathStep, ...]


@dataclass(frozen=True, slots=True)
class NextCursor:
    """The body holds a cursor, which is sent in the query of the next request."""

    path: tuple[PathStep, ...]
    parameter: str


NextPage: TypeAlias = LinkHeader | NextLink | NextCursor


@dataclass(frozen=True, slots=True)
class Pagination:
    """How the next page is found, and how many are read."""

    next_page: NextPage
    items: PickPath | None = None
    """The list in each page; None if the page is the list."""
    max_pages: int = DEFAULT_MAX_PAGES


_FORMS = "write 'link', {'next': 'links.next'} or {'cursor': 'meta.cursor', 'parameter': 'cursor'}."
_KEYS = frozenset({"next", "cursor", "parameter", "link", "items", "max_pages"})


def parse_pagination(value: Any, pick: PickPath | None) -> Pagination:
    """Parse what a developer gave as `paginate`; raises `DefinitionError`."""
    if value == "link":
        return Pagination(LinkHeader(), pick)
    if not isinstance(value, Mapping):
        raise DefinitionError(f"paginate={value!r} cannot be used.", fix=_FORMS)
    if unknown := set(value) - _KEYS:
        raise DefinitionError(f"paginate has no key {', '.join(sorted(map(str, unknown)))}.", fix=_FORMS)
    max_pages = value.get("max_pages", DEFAULT_MAX_PAGES)
    if not isinstance(max_pages, int) or isinstance(max_pages, bool) or not 0 < max_pages <= MAX_PAGES:
        problem = f"paginate.max_pages must be a whole number from 1 to {MAX_PAGES}, got {max_pages!r}."
        raise DefinitionError(problem, fix="give the most pages that one call may read.")
    items = PickPath.parse(value["items"]) if "items" in value else pick
    return Pagination(_parse_next_page(value), items, max_pages)


def _parse_next_page(value: Mapping[str, Any]) -> NextPage:
    kinds = {"next", "cursor", "link"} & value.keys()
    if len(kinds) != 1:
        raise DefinitionError("paginate needs one of next, cursor and link.", fix=_FORMS)
    if "link" in kinds:
        return LinkHeader()
    if "next" in kinds:
        return NextLink(parse_path(str(value["next"])))
    parameter = value.get("parameter")
    if not isinstance(parameter, str) or not parameter:
        raise DefinitionError("paginate with a cursor needs the name of the query parameter.", fix=_FORMS)
    return NextCursor(parse_path(str(value["cursor"])), parameter)


async def send_pages(
    sender: RestSender,
    request: HttpRequest,
    reader: ResponseReader,
    pagination: Pagination,
    *,
    auth: Auth | None = None,
    timeout: float | None = None,
) -> Done:
    """Send a request and those for the following pages; the result is the list of all items.

    If a page is no list, and `items` does not say where its list is, the result is the list of the pages. Further pages
    are left out, and the result says so, when all pages together are larger than one response may be.
    """
    collected: list[Any] = []
    seen = {request.target.path}
    pages = 0
    total_bytes = 0
    clock = asyncio.get_running_loop().time
    ends_at = None if timeout is None else clock() + timeout
    following: HttpRequest | None = request
    with sender.redacted_errors():
        while following is not None and pages < pagination.max_pages and total_bytes < sender.max_response_bytes:
            request = following
            remaining = None if ends_at is None else max(0.001, ends_at - clock())
            async with sender.open(request, auth=auth, timeout=remaining) as incoming:
                if not incoming.head.ok:
                    raise await read_error(incoming, sender.redactor, reader.mask)
                response = await incoming.read()
            pages += 1
            total_bytes += len(response.body)
            page, items = await run_by_size(
                len(response.body), _read_page, response, reader, sender.redactor, pagination.items
            )
            if isinstance(page, Done):
                raise ToolError(f"Page {pages} of the list is no JSON.")
            collected += items
            following = _next_request(request, incoming.head, page, pagination.next_page)
            if following is not None and following.target.path in seen:
                following = None  # a service that leads in a circle has no further page
            elif following is not None:
                seen.add(following.target.path)
        done = await run_by_size(total_bytes, done_with_clean_text, collected)
    return _collected_result(done, pages, following)


def _read_page(
    response: HttpResponse, reader: ResponseReader, redactor: Redactor, items: PickPath | None
) -> tuple[Any, list[Any]]:
    """The data of a page, in which the link to the next one is, and its items, in which secrets are hidden."""
    page = parse_body(response, redactor)
    if isinstance(page, Done):
        return page, []
    return page, _items_of(reader.hide(page, redactor), items)


def _items_of(page: Any, items: PickPath | None) -> list[Any]:
    found = page if items is None else items.find(page)
    return found if isinstance(found, list) else [found]


def _collected_result(done: Done, pages: int, following: HttpRequest | None) -> Done:
    metadata = {"pages": pages, "has_more": following is not None}
    if following is None:
        return done.evolve(metadata=metadata)
    note = f"({pages} pages were read, and there are more. Ask for less, or for a later part.)"
    return Done(done.data, content=[Json(done.data), Text(note)], metadata=metadata)


def _next_request(request: HttpRequest, head: ResponseHead, page: Any, next_page: NextPage) -> HttpRequest | None:
    if isinstance(next_page, NextCursor):
        cursor = _value_or_none(page, next_page.path)
        return None if cursor is None else _with_cursor(request, next_page.parameter, scalar_text(cursor, "A cursor"))
    link = _link_header(head) if isinstance(next_page, LinkHeader) else _value_or_none(page, next_page.path)
    if link is None:
        return None
    if not isinstance(link, str):
        raise ToolError(f"The link to the next page is a {type(link).__name__}, and no URL.")
    try:
        target = request.target.join(link)
    except (InvalidArguments, Denied) as error:
        raise ToolError(f"The link to the next page cannot be followed: {error}") from error
    if target.origin != request.target.origin:
        raise Denied(
            f"{request.target.host} leads to a next page on {target.host}, which is not followed: "
            "credentials stay with the host that the tool was defined with."
        )
    return replace(request, target=target)


def _value_or_none(page: Any, path: tuple[PathStep, ...]) -> Any:
    """The value at a path; None if it is missing, null or empty, which all mean that there is no further page."""
    has_value, value = value_at(page, path)
    return value if has_value and value not in (None, "", False) else None


def _with_cursor(request: HttpRequest, parameter: str, cursor: str) -> HttpRequest:
    path, _, query = request.target.path.partition("?")
    name = quote(parameter, safe="[]")
    others = [pair for pair in query.split("&") if pair and pair.partition("=")[0] != name]
    pairs = "&".join([*others, f"{name}={quote(cursor, safe='')}"])
    return replace(request, target=replace(request.target, path=f"{path}?{pairs}"))


def _link_header(head: ResponseHead) -> str | None:
    return next(_next_links(head.header("link")), None)


def _next_links(header: str) -> Iterator[str]:
    for match in _LINK.finditer(header):
        if _NEXT.search(match[2]):
            yield match[1]
