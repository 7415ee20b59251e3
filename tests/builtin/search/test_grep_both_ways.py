"""Ripgrep and our own walker give the same answers, whatever the tree and whatever is asked."""

import pytest

from tests.builtin.search_comparison import find_differences
from tests.requirements import needs


@needs("bubblewrap")
@pytest.mark.timeout(30)  # many processes, on a busy machine
@pytest.mark.parametrize("seed", range(16))
def test_both_ways_give_the_same_answers(seed: int) -> None:
    assert list(find_differences(seed)) == []
