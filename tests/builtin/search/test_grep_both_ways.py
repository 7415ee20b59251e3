"""ripgrep and the Python search give the same results for random trees and queries."""

import pytest

from tests.builtin.comparing import differences
from tests.needs import needs


@needs("bubblewrap")
@pytest.mark.timeout(30)  # many processes, on a busy machine
@pytest.mark.parametrize("seed", range(16))
def test_ripgrep_and_the_python_search_give_the_same_results(seed: int) -> None:
    assert list(differences(seed)) == []
