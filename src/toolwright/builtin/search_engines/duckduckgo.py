"""DuckDuckGo: its page for browsers without scripts, which needs no key."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser
from typing import ClassVar
from urllib.parse import parse_qs, urlencode, urlsplit

from toolwright.builtin.search_engines.engine import Hit, Question
from toolwright.builtin.search_engines.service import Service
from toolwright.core.errors import RateLimited

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
        page = _Results()
        page.feed(response.body.decode("utf-8", "replace"))
        page.close()
        return page.hits()[: question.limit]


class _Results(HTMLParser):
    """Each result is a link of class `result__a` and, after it, an element of class `result__snippet`."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._rows = list[tuple[str, list[str], list[str]]]()
        self._into: list[str] | None = None
        self._tag = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        classes = (given.get("class") or "").split()
        if "result__a" in classes:
            self._rows.append((given.get("href") or "", [], []))
            self._into, self._tag = self._rows[-1][1], tag
        elif "result__snippet" in classes and self._rows:
            self._into, self._tag = self._rows[-1][2], tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._tag:
            self._into = None

    def handle_data(self, data: str) -> None:
        if self._into is not None:
            self._into.append(data)

    def hits(self) -> list[Hit]:
        """What was found, without advertisements."""
        found = [Hit(_joined(title), _destination(link), _joined(content)) for link, title, content in self._rows]
        return [hit for hit in found if hit.url]


def _joined(parts: list[str]) -> str:
    return " ".join("".join(parts).split())


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
