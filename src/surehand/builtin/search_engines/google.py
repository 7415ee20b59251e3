"""Google: the JSON API of its Programmable Search Engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from surehand.builtin.search_engines.engine import Hit, Question, hits_of
from surehand.builtin.search_engines.service import Asked, Key, Service

PAGE = 10
_SINCE = {"day": "d1", "week": "w1", "month": "m1", "year": "y1"}


@dataclass(frozen=True, slots=True)
class Google:
    """https://developers.google.com/custom-search/v1, at most ten results a page."""

    service: Service
    key: Key
    cx: Key
    name: ClassVar[str] = "google"
    topics: ClassVar[tuple[str, ...]] = ()

    async def search(self, question: Question) -> list[Hit]:
        """Ask for as many pages as it takes."""
        found = list[Hit]()
        while len(found) < question.limit:
            page = await self._page(question, len(found))
            found += page
            if len(page) < PAGE:
                break
        return found[: question.limit]

    async def _page(self, question: Question, start: int) -> list[Hit]:
        query: Asked = {
            "key": self.key.read(),
            "cx": self.cx.read(),
            "q": question.with_sites(),
            "num": min(PAGE, question.limit - start),
            "start": start + 1,
            "dateRestrict": _SINCE.get(question.time_range or ""),
        }
        return hits_of((await self.service.ask_json(query)).get("items"), url="link", content="snippet")


def google(
    key: str | None = None,
    cx: str | None = None,
    *,
    endpoint: str = "https://www.googleapis.com/customsearch/v1",
    allow_private: bool = False,
) -> Google:
    """Search with Google; `GOOGLE_API_KEY` and `GOOGLE_CSE_ID` are read when they are needed and not given."""
    service = Service("google", endpoint, allow_private)
    return Google(service, Key("GOOGLE_API_KEY", key), Key("GOOGLE_CSE_ID", cx))
