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

NAME_WEIGHT, ALIAS_WEIGHT, DESCRIPTION_WEIGHT, PARAMETER_WEIGHT = 4.0, 3.0, 2.0, 1.0
EXACT_MATCH_WEIGHT, INFLECTED_MATCH_WEIGHT, PREFIX_MATCH_WEIGHT = 1.0, 0.8, 0.5
MIN_LISTINGS_OF_COMMON_WORD = 1_000
MAX_PREFIX_MATCHES = 200
"""A single letter begins thousands of words; the first ones are enough to show something."""

_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")
_ENDINGS = ("s", "es", "ed", "ing")


def split_words(text: str) -> list[str]:
    """`getHTTPStatus` and `get_http-status` alike as get, http, status."""
    return [word.casefold() for word in _WORD.findall(_CAMEL_CASE_BOUNDARY.sub(" ", text))]


class ToolIndex:
    """The words of some listings. It is built when first searched, and never changes."""

    def __init__(self, listings: Iterable[Listing]) -> None:
        # In this order, so that of two equally good ones the number alone says which comes first.
        self._listings = sorted(listings, key=lambda listing: (len(listing.name), listing.name))

    def search(self, query: str, limit: int = 10) -> list[Listing]:
        """The listings that fit the query's words best, best first; an exact name comes before everything."""
        matches = [self._score_word(word) for word in self._distinctive_words(split_words(query))]
        scores = _sum_scores(matches)
        matched = Counter(chain.from_iterable(matches))
        ranked = ((-score * matched[number] ** 2, number) for number, score in scores.items())
        best = [number for _, number in nsmallest(limit, ranked)]
        chosen = dict.fromkeys([*self._find_by_name(query.strip()), *best])
        return [self._listings[number] for number in chosen][: max(limit, 0)]

    def _distinctive_words(self, query_words: list[str]) -> list[str]:
        """The query's words without those that half of a large catalogue has, unless it has no others."""
        most = max(MIN_LISTINGS_OF_COMMON_WORD, len(self._listings) / 2)
        return [word for word in dict.fromkeys(query_words) if len(self._postings.get(word, ())) <= most] or query_words

    def _find_by_name(self, query: str) -> list[int]:
        numbers = self._numbers_by_name.get(query.casefold(), ())
        return sorted(numbers, key=lambda number: query not in _listing_names(self._listings[number]))

    def _score_word(self, word: str) -> dict[int, float]:
        """What each listing scores for one word of the query: its best match, rarer words counting more."""
        found: dict[int, float] = {}
        for known, closeness in self._similar_words(word):
            postings = self._postings[known]
            factor = closeness * log(1 + len(self._listings) / len(postings))
            if not found:
                found = {number: weight * factor for number, weight in postings.items()}
                continue
            for number, weight in postings.items():
                if (score := weight * factor) > found.get(number, 0.0):
                    found[number] = score
        return found

    def _similar_words(self, word: str) -> Iterator[tuple[str, float]]:
        if word in self._postings:
            yield word, EXACT_MATCH_WEIGHT
        for ending in _ENDINGS:
            if (stem := word.removesuffix(ending)) != word and len(stem) > 2 and stem in self._postings:
                yield stem, INFLECTED_MATCH_WEIGHT
        start = bisect_left(self._vocabulary, word)
        for known in islice(self._vocabulary, start, start + MAX_PREFIX_MATCHES):
            if not known.startswith(word):
                return
            if known != word:
                yield known, PREFIX_MATCH_WEIGHT * (1 + len(word) / len(known)) / 2

    @cached_property
    def _postings(self) -> Postings:
        postings: Postings = defaultdict(dict)
        for number, listing in enumerate(self._listings):
            for word, weight in _word_weights(listing).items():
                postings[word][number] = weight
        return dict(postings)

    @cached_property
    def _numbers_by_name(self) -> dict[str, set[int]]:
        named: dict[str, set[int]] = defaultdict(set)
        for number, listing in enumerate(self._listings):
            for name in _listing_names(listing):
                named[name.casefold()].add(number)
        return named

    @cached_property
    def _vocabulary(self) -> list[str]:
        return sorted(self._postings)


def _listing_names(listing: Listing) -> tuple[str, str, str]:
    return listing.name, listing.tool.name, listing.wire_name


def _sum_scores(matches: list[dict[int, float]]) -> dict[int, float]:
    if len(matches) == 1:
        return matches[0]
    scores: dict[int, float] = defaultdict(float)
    for found in matches:
        for number, score in found.items():
            scores[number] += score
    return scores


def _word_weights(listing: Listing) -> dict[str, float]:
    """Each word of a listing once per place it stands in, however often it is repeated there."""
    name = split_words(listing.name)
    places = (
        (NAME_WEIGHT, {*name, "".join(name)}),
        (ALIAS_WEIGHT, split_words(" ".join(listing.tool.aliases))),
        (DESCRIPTION_WEIGHT, split_words(_read_or_default(lambda: listing.tool.description, ""))),
        (PARAMETER_WEIGHT, split_words(" ".join(_parameter_texts(_read_or_default(lambda: listing.tool.schema, {}))))),
    )
    found: dict[str, float] = defaultdict(float)
    for weight, held in places:
        for word in set(held):
            found[word] += weight
    return found


def _read_or_default(read: Callable[[], Any], default: Any) -> Any:
    try:
        return read()
    except Exception:  # noqa: BLE001 - one tool that cannot be read must not keep the others from being found
        return default


def _parameter_texts(schema: Any) -> Iterator[str]:
    """Names and descriptions of the parameters."""
    fields = schema.get("properties") if isinstance(schema, dict) else None
    for name, field in fields.items() if isinstance(fields, dict) else ():
        yield str(name)
        if isinstance(field, dict) and isinstance(text := field.get("description"), str):
            yield text
