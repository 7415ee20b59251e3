"""The protocol of search engines, with the query that they get and the results that they return."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from surehand.core.errors import InvalidArguments

_DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")

_MAX_DOMAIN_LENGTH = 253
_MAX_TITLE_LENGTH = 300
_WEB_ADDRESS = re.compile(r"https?://[^\s\x00-\x20\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]{1,2000}")


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search, with the number of results and the filters."""

    text: str
    limit: int = 10
    topic: str | None = None
    time_range: str | None = None
    """`day`, `week`, `month` or `year`."""
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()

    def text_with_sites(self) -> str:
        """The text with its domains as `site:` operators, which most engines understand."""
        included = " OR ".join(f"site:{domain}" for domain in validate_domains(self.include_domains))
        excluded = " ".join(f"-site:{domain}" for domain in validate_domains(self.exclude_domains))
        if " OR " in included:
            included = f"({included})"
        return " ".join(part for part in (self.text, included, excluded) if part)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One result of a search."""

    title: str
    url: str
    content: str = ""
    score: float | None = None

    def render(self, max_content_length: int, sanitize: Callable[[str], str]) -> dict[str, Any]:
        """The result as a model is shown it."""
        rendered: dict[str, Any] = {
            "title": sanitize(self.title)[:_MAX_TITLE_LENGTH],
            "url": self.url,
            "content": sanitize(self.content)[:max_content_length],
        }
        return rendered if self.score is None else {**rendered, "score": self.score}


class SearchEngine(Protocol):
    """A service that can be searched; users may implement their own."""

    @property
    def name(self) -> str:
        """The name of the engine in messages."""
        ...

    @property
    def topics(self) -> tuple[str, ...]:
        """The kinds of sources that a query can choose from; may be empty."""
        ...

    async def search(self, search_query: SearchQuery) -> list[SearchResult]:
        """Search; return the best results first, at most `search_query.limit`."""
        ...


def validate_domains(names: tuple[str, ...]) -> list[str]:
    """Normalize domain names, and refuse anything else, which could be a search operator inside a query."""
    domains = [re.sub(r"^https?://", "", name.strip().lower()).strip("/").removeprefix("*.") for name in names]
    for domain in domains:
        if len(domain) > _MAX_DOMAIN_LENGTH or not _DOMAIN.fullmatch(domain):
            raise InvalidArguments(f"{domain[:100]!r} is no domain. Write it as in python.org.")
    return domains


def parse_results(
    items: Any, *, title_key: str = "title", url_key: str = "url", content_key: str = "content"
) -> list[SearchResult]:
    """Parse results from a list of JSON objects, leaving out those without an http(s) URL."""
    rows = [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
    results = [
        SearchResult(
            _text_or_empty(row.get(title_key)),
            _text_or_empty(row.get(url_key)),
            _text_or_empty(row.get(content_key)),
            _number_or_none(row.get("score")),
        )
        for row in rows
    ]
    return [result for result in results if _WEB_ADDRESS.fullmatch(result.url)]


def _text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number_or_none(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number else None
