"""Tavily: a search made for models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surehand.builtin.search_engines.engine import Hit, Question, domains, hits_of
from surehand.builtin.search_engines.service import Key, Service


@dataclass(frozen=True, slots=True)
class Tavily:
    """https://docs.tavily.com, `POST /search`."""

    service: Service
    key: Key
    name: ClassVar[str] = "tavily"
    topics: ClassVar[tuple[str, ...]] = ("general", "news", "finance")

    async def search(self, question: Question) -> list[Hit]:
        """Ask, with the domains and the topic as fields of their own."""
        asked = {
            "query": question.query,
            "max_results": question.limit,
            "topic": question.topic,
            "time_range": question.time_range,
            "include_domains": domains(question.include_domains),
            "exclude_domains": domains(question.exclude_domains),
        }
        body = {name: value for name, value in asked.items() if value}
        headers = {"Authorization": f"Bearer {self.key.read()}"}
        return hits_of((await self.service.ask_json(headers=headers, body=body)).get("results"))


def tavily(
    key: str | None = None, *, endpoint: str = "https://api.tavily.com/search", allow_private: bool = False
) -> Tavily:
    """Search with Tavily; without a key, `TAVILY_API_KEY` is read when it is needed."""
    return Tavily(Service("tavily", endpoint, allow_private), Key("TAVILY_API_KEY", key))
