"""ripgrep and the Python search give the same results for random trees and queries."""

import pytest

from tests.builtin.search_comparison import find_differences
from tests.requirements import needs


@needs("bubblewrap")
@pytest.mark.timeout(30)  # many processes, on a busy machine
@pytest.mark.parametrize("seed", range(16))
def test_ripgrep_and_the_python_search_give_the_same_results(seed: int) -> None:
    assert list(find_differences(seed)) == []
