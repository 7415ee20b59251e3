"""Search: tools found by words, among ten thousand of them in a few milliseconds."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from heapq import nsmallest
from itertools import chain, islice
from math import log
from typing import Any, TypeAlias

from surehand.catalogue.listing import Listing

Postings: TypeAlias = dict[str, dict[int, float]]
"""For each word, the listings that hold it and how much it says about each."""

NAME, ALIAS, DESCRIPTION, PARAMETER = 4.0, 3.0, 2.0, 1.0
WHOLE, INFLECTED, PREFIX = 1.0, 0.8, 0.5
COMMON = 1_000
MAX_PREFIXED = 200
"""A single letter begins thousands of words; the first ones are enough to show something."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")
_ENDINGS = ("s", "es", "ed", "ing")


def words(text: str) -> list[str]:
    """`getHTTPStatus` and `get_http-status` alike as get, http, status."""
    return [word.casefold() for word in _WORD.findall(_HUMP.sub(" ", text))]


class Index:
    """The words of some listings. It is built when first searched, and never changes."""

    def __init__(self, listings: Iterable[Listing]) -> None:
        # In this order, so that of two equally good ones the number alone says which comes first.
        self._listings = sorted(listings, key=lambda listing: (len(listing.name), listing.name))

    def search(self, query: str, limit: int = 10) -> list[Listing]:
        """The listings that fit the query's words best, best first; an exact name comes before everything."""
        matches = [self._matches(word) for word in self._telling(words(query))]
        scores = _summed(matches)
        matched = Counter(chain.from_iterable(matches))
        ranked = ((-score * matched[number] ** 2, number) for number, score in scores.items())
        best = [number for _, number in nsmallest(limit, ranked)]
        chosen = dict.fromkeys([*self._named(query.strip()), *best])
        return [self._listings[number] for number in chosen][: max(limit, 0)]

    def _telling(self, asked: list[str]) -> list[str]:
        """The query's words without those that half of a large catalogue has, unless it has no others."""
        most = max(COMMON, len(self._listings) / 2)
        return [word for word in dict.fromkeys(asked) if len(self._postings.get(word, ())) <= most] or asked

    def _named(self, query: str) -> list[int]:
        numbers = self._names.get(query.casefold(), ())
        return sorted(numbers, key=lambda number: query not in _names(self._listings[number]))

    def _matches(self, word: str) -> dict[int, float]:
        """What each listing scores for one word of the query: its best match, rarer words counting more."""
        found: dict[int, float] = {}
        for known, closeness in self._similar(word):
            postings = self._postings[known]
            factor = closeness * log(1 + len(self._listings) / len(postings))
            if not found:
                found = {number: weight * factor for number, weight in postings.items()}
                continue
            for number, weight in postings.items():
                if (score := weight * factor) > found.get(number, 0.0):
                    found[number] = score
        return found

    def _similar(self, word: str) -> Iterator[tuple[str, float]]:
        if word in self._postings:
            yield word, WHOLE
        for ending in _ENDINGS:
            if (stem := word.removesuffix(ending)) != word and len(stem) > 2 and stem in self._postings:
                yield stem, INFLECTED
        start = bisect_left(self._vocabulary, word)
        for known in islice(self._vocabulary, start, start + MAX_PREFIXED):
            if not known.startswith(word):
                return
            if known != word:
                yield known, PREFIX * (1 + len(word) / len(known)) / 2

    @cached_property
    def _postings(self) -> Postings:
        postings: Postings = defaultdict(dict)
        for number, listing in enumerate(self._listings):
            for word, weight in _weights(listing).items():
                postings[word][number] = weight
        return dict(postings)

    @cached_property
    def _names(self) -> dict[str, set[int]]:
        named: dict[str, set[int]] = defaultdict(set)
        for number, listing in enumerate(self._listings):
            for name in _names(listing):
                named[name.casefold()].add(number)
        return named

    @cached_property
    def _vocabulary(self) -> list[str]:
        return sorted(self._postings)


def _names(listing: Listing) -> tuple[str, str, str]:
    return listing.name, listing.tool.name, listing.wire


def _summed(matches: list[dict[int, float]]) -> dict[int, float]:
    if len(matches) == 1:
        return matches[0]
    scores: dict[int, float] = defaultdict(float)
    for found in matches:
        for number, score in found.items():
            scores[number] += score
    return scores


def _weights(listing: Listing) -> dict[str, float]:
    """Each word of a listing once per place it stands in, however often it is repeated there."""
    name = words(listing.name)
    places = (
        (NAME, {*name, "".join(name)}),
        (ALIAS, words(" ".join(listing.tool.aliases))),
        (DESCRIPTION, words(_or_nothing(lambda: listing.tool.description, ""))),
        (PARAMETER, words(" ".join(_parameter_texts(_or_nothing(lambda: listing.tool.schema, {}))))),
    )
    found: dict[str, float] = defaultdict(float)
    for weight, held in places:
        for word in set(held):
            found[word] += weight
    return found


def _or_nothing(read: Callable[[], Any], nothing: Any) -> Any:
    try:
        return read()
    except Exception:  # noqa: BLE001 - one tool that cannot be read must not keep the others from being found
        return nothing


def _parameter_texts(schema: Any) -> Iterator[str]:
    """Names and descriptions of the parameters."""
    fields = schema.get("properties") if isinstance(schema, dict) else None
    for name, field in fields.items() if isinstance(fields, dict) else ():
        yield str(name)
        if isinstance(field, dict) and isinstance(text := field.get("description"), str):
            yield text
