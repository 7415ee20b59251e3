"""DuckDuckGo, by its HTML page for browsers without JavaScript, which needs no API key."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from typing import ClassVar
from urllib.parse import parse_qs, urlencode, urlsplit

from surehand.builtin.web.search_engines.engine import SearchQuery, SearchResult
from surehand.builtin.web.search_engines.service import SearchService
from surehand.core.errors import RateLimited

MAX_PAGE_LENGTH = 500_000
_HTML_TOKEN = re.compile(r"<(?P<tag>/?[a-z][a-z0-9]*)(?P<rest>[^<>]*)>|(?P<text>[^<]+)", re.IGNORECASE)
_HTML_ATTRIBUTE = re.compile(r'\b(class|href)="([^"]*)"')
_DATE_FILTER_BY_TIME_RANGE = {"day": "d", "week": "w", "month": "m", "year": "y"}


@dataclass(frozen=True, slots=True)
class DuckDuckGo:
    """`POST https://html.duckduckgo.com/html/`. The format of the page is not documented and may change."""

    service: SearchService
    name: ClassVar[str] = "duckduckgo"
    topics: ClassVar[tuple[str, ...]] = ()

    async def search(self, search_query: SearchQuery) -> list[SearchResult]:
        """Submit the form of the page, and parse its list of results."""
        form = {
            "q": search_query.text_with_sites(),
            "kl": "wt-wt",
            "df": _DATE_FILTER_BY_TIME_RANGE.get(search_query.time_range or "", ""),
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
        response = await self.service.request(headers=headers, body=urlencode(form).encode())
        # Too many requests are answered with status 202 and a puzzle for people.
        if response.status == 202 or b"anomaly-modal" in response.body:
            raise RateLimited("DuckDuckGo wants to see a person before it answers more. Try again later.")
        page = response.body[:MAX_PAGE_LENGTH].decode("utf-8", "replace")
        return _parse_results_page(page)[: search_query.limit]


def _parse_results_page(page: str) -> list[SearchResult]:
    """Parse results: each is a link of class `result__a`, followed by an element of class `result__snippet`.

    The page is read token by token, because `html.parser` takes minutes for a page that is made to slow it down.
    """
    rows = list[tuple[str, list[str], list[str]]]()
    text_parts = list[str]()
    open_tag = ""
    for token in _HTML_TOKEN.finditer(page):
        if (text := token["text"]) is not None:
            text_parts.append(text)
            continue
        attributes = {name: unescape(value) for name, value in _HTML_ATTRIBUTE.findall(token["rest"][:4096])}
        classes = attributes.get("class", "").split()
        if "result__a" in classes:
            rows.append((attributes.get("href", ""), [], []))
            text_parts = rows[-1][1]
            open_tag = token["tag"]
        elif "result__snippet" in classes and rows:
            text_parts = rows[-1][2]
            open_tag = token["tag"]
        elif token["tag"] == f"/{open_tag}":
            text_parts = []
    results = [SearchResult(_join_text(title), _result_url(link), _join_text(content)) for link, title, content in rows]
    return [result for result in results if result.url]  # advertisements have no URL


def _join_text(parts: list[str]) -> str:
    return " ".join(unescape("".join(parts)).split())


def _result_url(link: str) -> str:
    """The URL of a result, which is a parameter of a redirect at `/l/`; empty for advertisements."""
    try:
        parts = urlsplit(link if "://" in link or link.startswith("//") else "")
        url = parse_qs(parts.query).get("uddg", [""])[0] if parts.path == "/l/" else link
        is_internal = (urlsplit(url).hostname or "").endswith("duckduckgo.com")
    except ValueError:
        return ""
    return url if url.startswith(("http://", "https://")) and not is_internal else ""


def duckduckgo(*, endpoint: str = "https://html.duckduckgo.com/html/", allow_private: bool = False) -> DuckDuckGo:
    """Search with DuckDuckGo."""
    return DuckDuckGo(SearchService("duckduckgo", endpoint, allow_private))
