"""Bing: the format of its Web Search API, version 7.

Microsoft closed that API in August 2025, and what followed it answers inside Azure's own agents only. The format lives
on with services that took it over, so the endpoint has to be named.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from surehand.builtin.web.search_engines.engine import SearchQuery, SearchResult, parse_results
from surehand.builtin.web.search_engines.service import ApiKey, QueryParameters, SearchService

_FRESHNESS_BY_TIME_RANGE = {"day": "Day", "week": "Week", "month": "Month"}


@dataclass(frozen=True, slots=True)
class Bing:
    """`GET /v7.0/search`."""

    service: SearchService
    key: ApiKey
    header: str
    name: ClassVar[str] = "bing"
    topics: ClassVar[tuple[str, ...]] = ()

    async def search(self, search_query: SearchQuery) -> list[SearchResult]:
        """Ask for web pages alone."""
        query: QueryParameters = {
            "q": search_query.text_with_sites(),
            "count": search_query.limit,
            "responseFilter": "Webpages",
            "freshness": _freshness(search_query.time_range),
        }
        bearer = "Bearer " if self.header.lower() == "authorization" else ""
        headers = {self.header: f"{bearer}{self.key.read()}"}
        pages: Any = (await self.service.request_json(query, headers=headers)).get("webPages")
        return parse_results(
            pages.get("value") if isinstance(pages, dict) else None, title_key="name", content_key="snippet"
        )


def _freshness(time_range: str | None) -> str | None:
    if time_range != "year":
        return _FRESHNESS_BY_TIME_RANGE.get(time_range or "")
    today = datetime.now(UTC).date()
    return f"{today - timedelta(days=365)}..{today}"


def bing(
    key: str | None = None,
    *,
    endpoint: str,
    header: str = "Ocp-Apim-Subscription-Key",
    allow_private: bool = False,
) -> Bing:
    """Search with a service that speaks Bing's format; without a key, `BING_API_KEY` is read when it is needed."""
    return Bing(SearchService("bing", endpoint, allow_private), ApiKey("BING_API_KEY", key), header)
