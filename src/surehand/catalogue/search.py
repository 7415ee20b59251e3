"""Full-text search of tools: an inverted index over names, aliases, descriptions and parameters.

A search among ten thousand tools takes a few milliseconds.
"""

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
"""For each word, the numbers of the listings that contain it, with the weight of the word in each."""

# The weight of a word by the field that contains it.
NAME_WEIGHT = 4.0
ALIAS_WEIGHT = 3.0
DESCRIPTION_WEIGHT = 2.0
PARAMETER_WEIGHT = 1.0
# The weight of a match by how a known word resembles the searched one.
EXACT_MATCH_WEIGHT = 1.0
INFLECTED_MATCH_WEIGHT = 0.8
PREFIX_MATCH_WEIGHT = 0.5
MIN_LISTINGS_OF_COMMON_WORD = 1_000
"""A word in fewer listings than this is never ignored as too common."""
MAX_PREFIX_MATCHES = 200
"""Words that start with the searched one. A single letter starts thousands; the first ones give enough results."""

_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")
_ENDINGS = ("s", "es", "ed", "ing")


def split_words(text: str) -> list[str]:
    """The words of a text or a name in lower case: `getHTTPStatus` and `get_http-status` are both get, http, status."""
    return [word.casefold() for word in _WORD.findall(_CAMEL_CASE_BOUNDARY.sub(" ", text))]


class ToolIndex:
    """An index of the words of listings. It is built at the first search and does not change."""

    def __init__(self, listings: Iterable[Listing]) -> None:
        # Sorted, so that of two results with equal scores the lower number comes first: the shorter name.
        self._listings = sorted(listings, key=lambda listing: (len(listing.name), listing.name))

    def search(self, query: str, limit: int = 10) -> list[Listing]:
        """The listings that match the query best, best first. A tool of exactly that name comes before all others."""
        scores_per_word = [self._score_word(word) for word in self._distinctive_words(split_words(query))]
        scores = _sum_scores(scores_per_word)
        matched_words = Counter(chain.from_iterable(scores_per_word))
        # A tool that matches two words of the query comes before one that matches a single word well.
        ranked = ((-score * matched_words[number] ** 2, number) for number, score in scores.items())
        best = [number for _, number in nsmallest(limit, ranked)]
        results = dict.fromkeys([*self._find_by_name(query.strip()), *best])
        return [self._listings[number] for number in results][: max(limit, 0)]

    def _distinctive_words(self, query_words: list[str]) -> list[str]:
        """The query's words without those that more than half of a large catalogue contains, unless none are left."""
        max_listings = max(MIN_LISTINGS_OF_COMMON_WORD, len(self._listings) / 2)
        unique_words = dict.fromkeys(query_words)
        distinctive = [word for word in unique_words if len(self._postings.get(word, ())) <= max_listings]
        return distinctive or query_words

    def _find_by_name(self, query: str) -> list[int]:
        numbers = self._numbers_by_name.get(query.casefold(), ())
        return sorted(numbers, key=lambda number: query not in _listing_names(self._listings[number]))

    def _score_word(self, word: str) -> dict[int, float]:
        """The score of each listing for one word: that of its best match. Rare words score higher."""
        scores: dict[int, float] = {}
        for known_word, similarity in self._similar_words(word):
            postings = self._postings[known_word]
            # Inverse document frequency: a word that few listings have says more.
            factor = similarity * log(1 + len(self._listings) / len(postings))
            if not scores:
                scores = {number: weight * factor for number, weight in postings.items()}
                continue
            for number, weight in postings.items():
                score = weight * factor
                if score > scores.get(number, 0.0):
                    scores[number] = score
        return scores

    def _similar_words(self, word: str) -> Iterator[tuple[str, float]]:
        """The known words that match one word of the query, with their similarity: itself, its stem, its extensions."""
        if word in self._postings:
            yield word, EXACT_MATCH_WEIGHT
        for ending in _ENDINGS:
            stem = word.removesuffix(ending)
            if stem != word and len(stem) > 2 and stem in self._postings:
                yield stem, INFLECTED_MATCH_WEIGHT
        start = bisect_left(self._vocabulary, word)
        for known_word in islice(self._vocabulary, start, start + MAX_PREFIX_MATCHES):
            if not known_word.startswith(word):
                return
            if known_word != word:
                yield known_word, PREFIX_MATCH_WEIGHT * (1 + len(word) / len(known_word)) / 2

    @cached_property
    def _postings(self) -> Postings:
        postings: Postings = defaultdict(dict)
        for number, listing in enumerate(self._listings):
            for word, weight in _word_weights(listing).items():
                postings[word][number] = weight
        return dict(postings)

    @cached_property
    def _numbers_by_name(self) -> dict[str, set[int]]:
        numbers: dict[str, set[int]] = defaultdict(set)
        for number, listing in enumerate(self._listings):
            for name in _listing_names(listing):
                numbers[name.casefold()].add(number)
        return numbers

    @cached_property
    def _vocabulary(self) -> list[str]:
        return sorted(self._postings)


def _listing_names(listing: Listing) -> tuple[str, str, str]:
    return listing.name, listing.tool.name, listing.wire_name


def _sum_scores(scores_per_word: list[dict[int, float]]) -> dict[int, float]:
    if len(scores_per_word) == 1:
        return scores_per_word[0]
    total: dict[int, float] = defaultdict(float)
    for scores in scores_per_word:
        for number, score in scores.items():
            total[number] += score
    return total


def _word_weights(listing: Listing) -> dict[str, float]:
    """The weight of each word of a listing: a word counts once for each field that contains it."""
    name_words = split_words(listing.name)
    fields = (
        (NAME_WEIGHT, {*name_words, "".join(name_words)}),
        (ALIAS_WEIGHT, split_words(" ".join(listing.tool.aliases))),
        (DESCRIPTION_WEIGHT, split_words(_read_or_default(lambda: listing.tool.description, ""))),
        (PARAMETER_WEIGHT, split_words(" ".join(_parameter_texts(_read_or_default(lambda: listing.tool.schema, {}))))),
    )
    weights: dict[str, float] = defaultdict(float)
    for weight, words in fields:
        for word in set(words):
            weights[word] += weight
    return weights


def _read_or_default(read: Callable[[], Any], default: Any) -> Any:
    try:
        return read()
    except Exception:  # noqa: BLE001 - one broken tool must not make the others unfindable
        return default


def _parameter_texts(schema: Any) -> Iterator[str]:
    """The names and descriptions of the parameters."""
    fields = schema.get("properties") if isinstance(schema, dict) else None
    for name, field in fields.items() if isinstance(fields, dict) else ():
        yield str(name)
        if isinstance(field, dict) and isinstance(text := field.get("description"), str):
            yield text
