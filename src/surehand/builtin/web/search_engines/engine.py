"""Engine: what answers a search, and what it is asked and gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from surehand.core.errors import InvalidArguments

_DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")

_WEB_ADDRESS = re.compile(r"https?://[^\s\x00-\x20\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]{1,2000}")


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search."""

    text: str
    limit: int = 10
    topic: str | None = None
    time_range: str | None = None
    """`day`, `week`, `month` or `year`."""
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()

    def text_with_sites(self) -> str:
        """The query with its domains in the words that most engines understand."""
        wanted = " OR ".join(f"site:{domain}" for domain in validate_domains(self.include_domains))
        unwanted = " ".join(f"-site:{domain}" for domain in validate_domains(self.exclude_domains))
        several = f"({wanted})" if " OR " in wanted else wanted
        return " ".join(part for part in (self.text, several, unwanted) if part)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One result."""

    title: str
    url: str
    content: str = ""
    score: float | None = None

    def render(self, max_content_length: int, sanitize: Callable[[str], str]) -> dict[str, Any]:
        """As a model is shown it."""
        shown: dict[str, Any] = {"title": sanitize(self.title)[:300], "url": self.url}
        shown["content"] = sanitize(self.content)[:max_content_length]
        return shown if self.score is None else {**shown, "score": self.score}


class SearchEngine(Protocol):
    """Anything that can be searched."""

    @property
    def name(self) -> str:
        """As it is called in messages."""
        ...

    @property
    def topics(self) -> tuple[str, ...]:
        """The kinds of sources that can be asked for, if any."""
        ...

    async def search(self, search_query: SearchQuery) -> list[SearchResult]:
        """The best results first, at most as many as were asked for."""
        ...


def validate_domains(names: tuple[str, ...]) -> list[str]:
    """Plain domain names: what else were put into a query could be an operator of its own."""
    found = [re.sub(r"^https?://", "", domain.strip().lower()).strip("/").removeprefix("*.") for domain in names]
    for domain in found:
        if len(domain) > 253 or not _DOMAIN.fullmatch(domain):
            raise InvalidArguments(f"{domain[:100]!r} is no domain. Write it as in python.org.")
    return found


def parse_results(
    items: Any, *, title_key: str = "title", url_key: str = "url", content_key: str = "content"
) -> list[SearchResult]:
    """Results from a list of JSON objects; what has no address, or none of the web's, is left out."""
    rows = [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
    found = [
        SearchResult(
            _text_or_empty(row.get(title_key)),
            _text_or_empty(row.get(url_key)),
            _text_or_empty(row.get(content_key)),
            _number_or_none(row.get("score")),
        )
        for row in rows
    ]
    return [hit for hit in found if _WEB_ADDRESS.fullmatch(hit.url)]


def _text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number_or_none(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
