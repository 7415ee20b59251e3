"""Google, by the JSON API of Programmable Search Engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surehand.builtin.web.search_engines.engine import SearchQuery, SearchResult, parse_results
from surehand.builtin.web.search_engines.service import ApiKey, QueryParameters, SearchService

RESULTS_PER_PAGE = 10
_DATE_RESTRICT_BY_TIME_RANGE = {"day": "d1", "week": "w1", "month": "m1", "year": "y1"}


@dataclass(frozen=True, slots=True)
class Google:
    """https://developers.google.com/custom-search/v1, with at most ten results a page."""

    service: SearchService
    key: ApiKey
    cx: ApiKey
    name: ClassVar[str] = "google"
    topics: ClassVar[tuple[str, ...]] = ()

    async def search(self, search_query: SearchQuery) -> list[SearchResult]:
        """Request pages until there are enough results."""
        results = list[SearchResult]()
        while len(results) < search_query.limit:
            page = await self._fetch_page(search_query, len(results))
            results += page
            if len(page) < RESULTS_PER_PAGE:
                break
        return results[: search_query.limit]

    async def _fetch_page(self, search_query: SearchQuery, start: int) -> list[SearchResult]:
        parameters: QueryParameters = {
            "key": self.key.read(),
            "cx": self.cx.read(),
            "q": search_query.text_with_sites(),
            "num": min(RESULTS_PER_PAGE, search_query.limit - start),
            "start": start + 1,
            "dateRestrict": _DATE_RESTRICT_BY_TIME_RANGE.get(search_query.time_range or ""),
        }
        data = await self.service.request_json(parameters)
        return parse_results(data.get("items"), url_key="link", content_key="snippet")


def google(
    key: str | None = None,
    cx: str | None = None,
    *,
    endpoint: str = "https://www.googleapis.com/customsearch/v1",
    allow_private: bool = False,
) -> Google:
    """Search with Google; without arguments, `GOOGLE_API_KEY` and `GOOGLE_CSE_ID` are read at each search."""
    service = SearchService("google", endpoint, allow_private)
    return Google(service, ApiKey("GOOGLE_API_KEY", key), ApiKey("GOOGLE_CSE_ID", cx))
