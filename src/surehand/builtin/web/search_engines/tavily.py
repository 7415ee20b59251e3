"""Tavily, a search API for language models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surehand.builtin.web.search_engines.engine import SearchQuery, SearchResult, parse_results, validate_domains
from surehand.builtin.web.search_engines.service import ApiKey, SearchService


@dataclass(frozen=True, slots=True)
class Tavily:
    """https://docs.tavily.com, `POST /search`."""

    service: SearchService
    key: ApiKey
    name: ClassVar[str] = "tavily"
    topics: ClassVar[tuple[str, ...]] = ("general", "news", "finance")

    async def search(self, search_query: SearchQuery) -> list[SearchResult]:
        """Search, with domains and topic as fields of the request."""
        fields = {
            "query": search_query.text,
            "max_results": search_query.limit,
            "topic": search_query.topic,
            "time_range": search_query.time_range,
            "include_domains": validate_domains(search_query.include_domains),
            "exclude_domains": validate_domains(search_query.exclude_domains),
        }
        body = {name: value for name, value in fields.items() if value}
        headers = {"Authorization": f"Bearer {self.key.read()}"}
        data = await self.service.request_json(headers=headers, body=body)
        return parse_results(data.get("results"))


def tavily(
    key: str | None = None, *, endpoint: str = "https://api.tavily.com/search", allow_private: bool = False
) -> Tavily:
    """Search with Tavily; without `key`, `TAVILY_API_KEY` is read at each search."""
    return Tavily(SearchService("tavily", endpoint, allow_private), ApiKey("TAVILY_API_KEY", key))
