"""DuckDuckGo: its page for browsers without scripts, which needs no key."""

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
    """`POST https://html.duckduckgo.com/html/`; there is no contract about what comes back."""

    service: SearchService
    name: ClassVar[str] = "duckduckgo"
    topics: ClassVar[tuple[str, ...]] = ()

    async def search(self, search_query: SearchQuery) -> list[SearchResult]:
        """Send the form of that page, and read its list of results."""
        form = {
            "q": search_query.text_with_sites(),
            "kl": "wt-wt",
            "df": _DATE_FILTER_BY_TIME_RANGE.get(search_query.time_range or "", ""),
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
        response = await self.service.request(headers=headers, body=urlencode(form).encode())
        # It answers 202 with a puzzle to whoever asks too much.
        if response.status == 202 or b"anomaly-modal" in response.body:
            raise RateLimited("DuckDuckGo wants to see a person before it answers more. Try again later.")
        return _parse_results_page(response.body[:MAX_PAGE_LENGTH].decode("utf-8", "replace"))[: search_query.limit]


def _parse_results_page(page: str) -> list[SearchResult]:
    """Each result is a link of class `result__a` and, after it, an element of class `result__snippet`.

    Read token by token: the parser of the standard library takes minutes for a page that is made for it.
    """
    rows = list[tuple[str, list[str], list[str]]]()
    into, ends = list[str](), ""
    for token in _HTML_TOKEN.finditer(page):
        if (text := token["text"]) is not None:
            into.append(text)
            continue
        attributes = {name: unescape(value) for name, value in _HTML_ATTRIBUTE.findall(token["rest"][:4096])}
        classes = attributes.get("class", "").split()
        if "result__a" in classes:
            rows.append((attributes.get("href", ""), [], []))
            into, ends = rows[-1][1], token["tag"]
        elif "result__snippet" in classes and rows:
            into, ends = rows[-1][2], token["tag"]
        elif token["tag"] == f"/{ends}":
            into = []
    found = [SearchResult(_join_text(title), _result_url(link), _join_text(content)) for link, title, content in rows]
    return [hit for hit in found if hit.url]  # advertisements have none


def _join_text(parts: list[str]) -> str:
    return " ".join(unescape("".join(parts)).split())


def _result_url(link: str) -> str:
    """Links go through a counter, with the page itself in a parameter; those of advertisements do not."""
    try:
        parts = urlsplit(link if "://" in link or link.startswith("//") else "")
        wanted = parse_qs(parts.query).get("uddg", [""])[0] if parts.path == "/l/" else link
        own = (urlsplit(wanted).hostname or "").endswith("duckduckgo.com")
    except ValueError:
        return ""
    return wanted if wanted.startswith(("http://", "https://")) and not own else ""


def duckduckgo(*, endpoint: str = "https://html.duckduckgo.com/html/", allow_private: bool = False) -> DuckDuckGo:
    """Search with DuckDuckGo."""
    return DuckDuckGo(SearchService("duckduckgo", endpoint, allow_private))
