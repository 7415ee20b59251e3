"""Engine: what answers a search, and what it is asked and gives."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from surehand.core.errors import InvalidArguments

_DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")

_ADDRESS = re.compile(r"https?://[^\s\x00-\x20\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]{1,2000}")


@dataclass(frozen=True, slots=True)
class Question:
    """A search."""

    query: str
    limit: int = 10
    topic: str | None = None
    time_range: str | None = None
    """`day`, `week`, `month` or `year`."""
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()

    def with_sites(self) -> str:
        """The query with its domains in the words that most engines understand."""
        wanted = " OR ".join(f"site:{domain}" for domain in domains(self.include_domains))
        unwanted = " ".join(f"-site:{domain}" for domain in domains(self.exclude_domains))
        several = f"({wanted})" if " OR " in wanted else wanted
        return " ".join(part for part in (self.query, several, unwanted) if part)


@dataclass(frozen=True, slots=True)
class Hit:
    """One result."""

    title: str
    url: str
    content: str = ""
    score: float | None = None

    def shown(self, most: int, clean: Callable[[str], str]) -> dict[str, Any]:
        """As a model is shown it."""
        shown: dict[str, Any] = {"title": clean(self.title)[:300], "url": self.url}
        shown["content"] = clean(self.content)[:most]
        return shown if self.score is None else {**shown, "score": self.score}


class Engine(Protocol):
    """Anything that can be searched."""

    @property
    def name(self) -> str:
        """As it is called in messages."""
        ...

    @property
    def topics(self) -> tuple[str, ...]:
        """The kinds of sources that can be asked for, if any."""
        ...

    async def search(self, question: Question) -> list[Hit]:
        """The best results first, at most as many as were asked for."""
        ...


def domains(given: tuple[str, ...]) -> list[str]:
    """Plain domain names: what else were put into a query could be an operator of its own."""
    found = [re.sub(r"^https?://", "", domain.strip().lower()).strip("/").removeprefix("*.") for domain in given]
    for domain in found:
        if len(domain) > 253 or not _DOMAIN.fullmatch(domain):
            raise InvalidArguments(f"{domain[:100]!r} is no domain. Write it as in python.org.")
    return found


def hits_of(items: Any, *, title: str = "title", url: str = "url", content: str = "content") -> list[Hit]:
    """Results from a list of JSON objects; what has no address, or none of the web's, is left out."""
    rows = [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
    found = [
        Hit(_text(row.get(title)), _text(row.get(url)), _text(row.get(content)), _number(row.get("score")))
        for row in rows
    ]
    return [hit for hit in found if _ADDRESS.fullmatch(hit.url)]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
