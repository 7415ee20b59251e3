"""What a model request cost: tokens as the server reports them, and dollars if the developer gave the price."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite
from typing import Any

from surehand.agent.models.base import ModelRequest, Usage

_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model in US dollars for a million tokens, as providers list it."""

    input: float
    output: float
    cached_input: float | None = None
    """For input that the provider had in its cache; None: the same as `input`."""

    def cost(self, tokens_in: int, tokens_out: int, cached_tokens: int = 0) -> float:
        """The cost of a request in dollars; `cached_tokens` are those of `tokens_in` that came from the cache."""
        cached_price = self.input if self.cached_input is None else self.cached_input
        dollars = (tokens_in - cached_tokens) * self.input + cached_tokens * cached_price + tokens_out * self.output
        return dollars / 1_000_000


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens of one request as a server reports them."""

    tokens_in: int
    tokens_out: int
    cached_tokens: int = 0
    cost: float | None = None
    """In dollars, if the server reports it, as OpenRouter does."""


def build_usage(count: TokenCount | None, price: Price | None, request: ModelRequest, answer: str) -> Usage:
    """The usage of a request.

    What the server did not report, or cannot be true, is estimated: limits have to hold whatever a server says.
    """
    reported = count or TokenCount(0, 0)
    tokens_in = reported.tokens_in or _estimate_tokens(_request_text(request))
    tokens_out = reported.tokens_out or _estimate_tokens(answer)
    cost = reported.cost
    if cost is not None and not (isfinite(cost) and cost >= 0):
        cost = None
    if cost is None and price is not None:
        cost = price.cost(tokens_in, tokens_out, min(reported.cached_tokens, tokens_in))
    return Usage(tokens_in, tokens_out, cost)


def _request_text(request: ModelRequest) -> str:
    return json.dumps([request.messages, request.tools], default=str)


def _estimate_tokens(text: str) -> int:
    return -(-len(text) // _CHARACTERS_PER_TOKEN)


def read_count(value: Any) -> int:
    """A number of tokens; 0 for anything that is not one."""
    return value if isinstance(value, int) and value >= 0 else 0
