"""SearXNG, a metasearch engine that users host themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surehand.builtin.web.search_engines.engine import SearchQuery, SearchResult, parse_results
from surehand.builtin.web.search_engines.service import SearchService, require_endpoint


@dataclass(frozen=True, slots=True)
class SearXNG:
    """https://docs.searxng.org/dev/search_api. The settings of the server must list `json` among its formats."""

    service: SearchService
    name: ClassVar[str] = "searxng"
    topics: ClassVar[tuple[str, ...]] = ("general", "news", "science", "it")

    async def search(self, search_query: SearchQuery) -> list[SearchResult]:
        """Request one page; the server decides how many results it has."""
        parameters = {
            "q": search_query.text_with_sites(),
            "format": "json",
            "time_range": search_query.time_range,
            "categories": search_query.topic,
        }
        data = await self.service.request_json(parameters)
        return parse_results(data.get("results"))[: search_query.limit]


def searxng(url: str | None = None, *, allow_private: bool = False) -> SearXNG:
    """Search with a SearXNG server, as in `searxng("https://search.example.com")`."""
    base = require_endpoint("searxng", url, 'searxng("https://search.example.com")').rstrip("/")
    endpoint = base if base.endswith("/search") else f"{base}/search"
    return SearXNG(SearchService("searxng", endpoint, allow_private))
