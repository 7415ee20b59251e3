"""SearXNG: a search engine that one runs oneself, and that asks others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surehand.builtin.search_engines.engine import Hit, Question, hits_of
from surehand.builtin.search_engines.service import Service


@dataclass(frozen=True, slots=True)
class SearXNG:
    """https://docs.searxng.org/dev/search_api; its settings must list `json` among the formats."""

    service: Service
    name: ClassVar[str] = "searxng"
    topics: ClassVar[tuple[str, ...]] = ("general", "news", "science", "it")

    async def search(self, question: Question) -> list[Hit]:
        """Ask for one page, which has as many results as that server is set to."""
        query = {
            "q": question.with_sites(),
            "format": "json",
            "time_range": question.time_range,
            "categories": question.topic,
        }
        return hits_of((await self.service.ask_json(query)).get("results"))[: question.limit]


def searxng(url: str, *, allow_private: bool = False) -> SearXNG:
    """Search with a SearXNG server, as in `searxng("https://search.example.com")`."""
    base = url.rstrip("/")
    endpoint = base if base.endswith("/search") else f"{base}/search"
    return SearXNG(Service("searxng", endpoint, allow_private))
