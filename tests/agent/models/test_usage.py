"""Usage: limits hold whatever a server says about tokens and cost."""

import math

import pytest

from surehand.agent.models.base import ModelRequest
from surehand.agent.models.usage import Price, TokenCount, build_usage
from tests.agent.models.wires import user

PRICE = Price(input=1.0, output=2.0, cached_input=0.1)


@pytest.mark.parametrize("cost", [-1.0, math.nan, math.inf])
def test_a_cost_that_cannot_be_true_is_worked_out_from_the_price(cost):
    usage = build_usage(TokenCount(1_000_000, 0, cost=cost), PRICE, ModelRequest([user("Hi")], []), "")

    assert usage.cost == 1.0


def test_more_cached_tokens_than_tokens_cost_no_less_than_nothing():
    usage = build_usage(TokenCount(1_000_000, 0, cached_tokens=10**12), PRICE, ModelRequest([user("Hi")], []), "")

    assert usage.cost == pytest.approx(0.1)


def test_tokens_that_were_not_reported_are_estimated():
    usage = build_usage(TokenCount(0, 0), None, ModelRequest([user("x" * 400)], []), "y" * 40)

    assert usage.tokens_in >= 100
    assert usage.tokens_out == 10
