"""Brave: the Web Search API of its own index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from surehand.builtin.search_engines.engine import Hit, Question, hits_of
from surehand.builtin.search_engines.service import Asked, Key, Service

_SINCE = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}


@dataclass(frozen=True, slots=True)
class Brave:
    """https://api.search.brave.com, `GET /res/v1/web/search`."""

    service: Service
    key: Key
    name: ClassVar[str] = "brave"
    topics: ClassVar[tuple[str, ...]] = ()

    async def search(self, question: Question) -> list[Hit]:
        """Ask for plain text: its own marks of emphasis are HTML."""
        query: Asked = {
            "q": question.with_sites(),
            "count": min(question.limit, 20),
            "text_decorations": "false",
            "result_filter": "web",
            "freshness": _SINCE.get(question.time_range or ""),
        }
        headers = {"X-Subscription-Token": self.key.read()}
        web: Any = (await self.service.ask_json(query, headers=headers)).get("web")
        return hits_of(web.get("results") if isinstance(web, dict) else None, content="description")


def brave(
    key: str | None = None,
    *,
    endpoint: str = "https://api.search.brave.com/res/v1/web/search",
    allow_private: bool = False,
) -> Brave:
    """Search with Brave; without a key, `BRAVE_API_KEY` is read when it is needed."""
    return Brave(Service("brave", endpoint, allow_private), Key("BRAVE_API_KEY", key))
