"""SearXNG: a search engine that one runs oneself, and that asks others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surehand.builtin.web.search_engines.engine import SearchQuery, SearchResult, parse_results
from surehand.builtin.web.search_engines.service import SearchService


@dataclass(frozen=True, slots=True)
class SearXNG:
    """https://docs.searxng.org/dev/search_api; its settings must list `json` among the formats."""

    service: SearchService
    name: ClassVar[str] = "searxng"
    topics: ClassVar[tuple[str, ...]] = ("general", "news", "science", "it")

    async def search(self, search_query: SearchQuery) -> list[SearchResult]:
        """Ask for one page, which has as many results as that server is set to."""
        query = {
            "q": search_query.text_with_sites(),
            "format": "json",
            "time_range": search_query.time_range,
            "categories": search_query.topic,
        }
        return parse_results((await self.service.request_json(query)).get("results"))[: search_query.limit]


def searxng(url: str, *, allow_private: bool = False) -> SearXNG:
    """Search with a SearXNG server, as in `searxng("https://search.example.com")`."""
    base = url.rstrip("/")
    endpoint = base if base.endswith("/search") else f"{base}/search"
    return SearXNG(SearchService("searxng", endpoint, allow_private))
