"""Brave: the Web Search API of its own index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from surehand.builtin.web.search_engines.engine import SearchQuery, SearchResult, parse_results
from surehand.builtin.web.search_engines.service import ApiKey, QueryParameters, SearchService

_FRESHNESS_BY_TIME_RANGE = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}


@dataclass(frozen=True, slots=True)
class Brave:
    """https://api.search.brave.com, `GET /res/v1/web/search`."""

    service: SearchService
    key: ApiKey
    name: ClassVar[str] = "brave"
    topics: ClassVar[tuple[str, ...]] = ()

    async def search(self, search_query: SearchQuery) -> list[SearchResult]:
        """Ask for plain text: its own marks of emphasis are HTML."""
        query: QueryParameters = {
            "q": search_query.text_with_sites(),
            "count": min(search_query.limit, 20),
            "text_decorations": "false",
            "result_filter": "web",
            "freshness": _FRESHNESS_BY_TIME_RANGE.get(search_query.time_range or ""),
        }
        headers = {"X-Subscription-Token": self.key.read()}
        web: Any = (await self.service.request_json(query, headers=headers)).get("web")
        return parse_results(web.get("results") if isinstance(web, dict) else None, content_key="description")


def brave(
    key: str | None = None,
    *,
    endpoint: str = "https://api.search.brave.com/res/v1/web/search",
    allow_private: bool = False,
) -> Brave:
    """Search with Brave; without a key, `BRAVE_API_KEY` is read when it is needed."""
    return Brave(SearchService("brave", endpoint, allow_private), ApiKey("BRAVE_API_KEY", key))
