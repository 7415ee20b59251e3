"""Bing: the format of its Web Search API, version 7.

Microsoft closed that API in August 2025, and what followed it answers inside Azure's own agents only. The format lives
on with services that took it over, so the endpoint has to be named.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from surehand.builtin.search_engines.engine import Hit, Question, hits_of
from surehand.builtin.search_engines.service import Asked, Key, Service

_SINCE = {"day": "Day", "week": "Week", "month": "Month"}


@dataclass(frozen=True, slots=True)
class Bing:
    """`GET /v7.0/search`."""

    service: Service
    key: Key
    header: str
    name: ClassVar[str] = "bing"
    topics: ClassVar[tuple[str, ...]] = ()

    async def search(self, question: Question) -> list[Hit]:
        """Ask for web pages alone."""
        query: Asked = {
            "q": question.with_sites(),
            "count": question.limit,
            "responseFilter": "Webpages",
            "freshness": _freshness(question.time_range),
        }
        bearer = "Bearer " if self.header.lower() == "authorization" else ""
        headers = {self.header: f"{bearer}{self.key.read()}"}
        pages: Any = (await self.service.ask_json(query, headers=headers)).get("webPages")
        return hits_of(pages.get("value") if isinstance(pages, dict) else None, title="name", content="snippet")


def _freshness(time_range: str | None) -> str | None:
    if time_range != "year":
        return _SINCE.get(time_range or "")
    today = datetime.now(UTC).date()
    return f"{today - timedelta(days=365)}..{today}"


def bing(
    key: str | None = None,
    *,
    endpoint: str,
    header: str = "Ocp-Apim-Subscription-Key",
    allow_private: bool = False,
) -> Bing:
    """Search with a service that speaks Bing's format; without a key, `BING_API_KEY` is read when it is needed."""
    return Bing(Service("bing", endpoint, allow_private), Key("BING_API_KEY", key), header)
