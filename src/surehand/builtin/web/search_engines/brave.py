"""Brave, by its Web Search API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from surehand.builtin.web.search_engines.engine import SearchQuery, SearchResult, parse_results
from surehand.builtin.web.search_engines.service import ApiKey, QueryParameters, SearchService

MAX_RESULTS_PER_REQUEST = 20
"""Largest number of results that the API returns."""
_FRESHNESS_BY_TIME_RANGE = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}


@dataclass(frozen=True, slots=True)
class Brave:
    """https://api.search.brave.com, `GET /res/v1/web/search`."""

    service: SearchService
    key: ApiKey
    name: ClassVar[str] = "brave"
    topics: ClassVar[tuple[str, ...]] = ()

    async def search(self, search_query: SearchQuery) -> list[SearchResult]:
        """Search without text decorations, which are HTML tags."""
        parameters: QueryParameters = {
            "q": search_query.text_with_sites(),
            "count": min(search_query.limit, MAX_RESULTS_PER_REQUEST),
            "text_decorations": "false",
            "result_filter": "web",
            "freshness": _FRESHNESS_BY_TIME_RANGE.get(search_query.time_range or ""),
        }
        headers = {"X-Subscription-Token": self.key.read()}
        data = await self.service.request_json(parameters, headers=headers)
        web: Any = data.get("web")
        items = web.get("results") if isinstance(web, dict) else None
        return parse_results(items, content_key="description")


def brave(
    key: str | None = None,
    *,
    endpoint: str = "https://api.search.brave.com/res/v1/web/search",
    allow_private: bool = False,
) -> Brave:
    """Search with Brave; without `key`, `BRAVE_API_KEY` is read at each search."""
    return Brave(SearchService("brave", endpoint, allow_private), ApiKey("BRAVE_API_KEY", key))
