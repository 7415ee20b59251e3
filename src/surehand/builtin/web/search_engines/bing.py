"""Services with the format of Bing's Web Search API, version 7.

Microsoft closed that API in August 2025, and its successor works only inside Azure's agents. Other services still
offer the format, so the endpoint has to be given.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from surehand.builtin.web.search_engines.engine import SearchQuery, SearchResult, parse_results
from surehand.builtin.web.search_engines.service import ApiKey, QueryParameters, SearchService, require_endpoint

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
        """Search web pages only."""
        parameters: QueryParameters = {
            "q": search_query.text_with_sites(),
            "count": search_query.limit,
            "responseFilter": "Webpages",
            "freshness": _freshness(search_query.time_range),
        }
        scheme = "Bearer " if self.header.lower() == "authorization" else ""
        headers = {self.header: f"{scheme}{self.key.read()}"}
        data = await self.service.request_json(parameters, headers=headers)
        pages: Any = data.get("webPages")
        items = pages.get("value") if isinstance(pages, dict) else None
        return parse_results(items, title_key="name", content_key="snippet")


def _freshness(time_range: str | None) -> str | None:
    if time_range != "year":
        return _FRESHNESS_BY_TIME_RANGE.get(time_range or "")
    today = datetime.now(UTC).date()
    return f"{today - timedelta(days=365)}..{today}"


def bing(
    key: str | None = None,
    *,
    endpoint: str | None = None,
    header: str = "Ocp-Apim-Subscription-Key",
    allow_private: bool = False,
) -> Bing:
    """Search with a service that has Bing's format; without `key`, `BING_API_KEY` is read at each search."""
    address = require_endpoint("bing", endpoint, 'bing(endpoint="https://search.example.com/v7.0/search")')
    return Bing(SearchService("bing", address, allow_private), ApiKey("BING_API_KEY", key), header)
