"""DuckDuckGo: its page for browsers without scripts, which needs no key."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from typing import ClassVar
from urllib.parse import parse_qs, urlencode, urlsplit

from surehand.builtin.search_engines.engine import Hit, Question
from surehand.builtin.search_engines.service import Service
from surehand.core.errors import RateLimited

MAX_PAGE = 500_000
_TOKEN = re.compile(r"<(?P<tag>/?[a-z][a-z0-9]*)(?P<rest>[^<>]*)>|(?P<text>[^<]+)", re.IGNORECASE)
_ATTRIBUTE = re.compile(r'\b(class|href)="([^"]*)"')
_SINCE = {"day": "d", "week": "w", "month": "m", "year": "y"}


@dataclass(frozen=True, slots=True)
class DuckDuckGo:
    """`POST https://html.duckduckgo.com/html/`; there is no contract about what comes back."""

    service: Service
    name: ClassVar[str] = "duckduckgo"
    topics: ClassVar[tuple[str, ...]] = ()

    async def search(self, question: Question) -> list[Hit]:
        """Send the form of that page, and read its list of results."""
        form = {"q": question.with_sites(), "kl": "wt-wt", "df": _SINCE.get(question.time_range or "", "")}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
        response = await self.service.ask(headers=headers, body=urlencode(form).encode())
        # It answers 202 with a puzzle to whoever asks too much.
        if response.status == 202 or b"anomaly-modal" in response.body:
            raise RateLimited("DuckDuckGo wants to see a person before it answers more. Try again later.")
        return _hits(response.body[:MAX_PAGE].decode("utf-8", "replace"))[: question.limit]


def _hits(page: str) -> list[Hit]:
    """Each result is a link of class `result__a` and, after it, an element of class `result__snippet`.

    Read token by token: the parser of the standard library takes minutes for a page that is made for it.
    """
    rows = list[tuple[str, list[str], list[str]]]()
    into, ends = list[str](), ""
    for token in _TOKEN.finditer(page):
        if (text := token["text"]) is not None:
            into.append(text)
            continue
        attributes = {name: unescape(value) for name, value in _ATTRIBUTE.findall(token["rest"][:4096])}
        classes = attributes.get("class", "").split()
        if "result__a" in classes:
            rows.append((attributes.get("href", ""), [], []))
            into, ends = rows[-1][1], token["tag"]
        elif "result__snippet" in classes and rows:
            into, ends = rows[-1][2], token["tag"]
        elif token["tag"] == f"/{ends}":
            into = []
    found = [Hit(_joined(title), _destination(link), _joined(content)) for link, title, content in rows]
    return [hit for hit in found if hit.url]  # advertisements have none


def _joined(parts: list[str]) -> str:
    return " ".join(unescape("".join(parts)).split())


def _destination(link: str) -> str:
    """Links go through a counter, with the page itself in a parameter; those of advertisements do not."""
    try:
        parts = urlsplit(link if "://" in link or link.startswith("//") else "")
        wanted = parse_qs(parts.query).get("uddg", [""])[0] if parts.path == "/l/" else link
        own = (urlsplit(wanted).hostname or "").endswith("duckduckgo.com")
    except ValueError:
        return ""
    return wanted if wanted.startswith(("http://", "https://")) and not own else ""


def duckduckgo(*, endpoint: str = "https://html.duckduckgo.com/html/", allow_private: bool = False) -> DuckDuckGo:
    """Search with DuckDuckGo."""
    return DuckDuckGo(Service("duckduckgo", endpoint, allow_private))
