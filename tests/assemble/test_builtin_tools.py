"""Built-in tools that a configuration enables."""

import logging

import pytest

from surehand.assemble import assemble
from surehand.config.config import read_config


@pytest.mark.parametrize("family", ["delegate", "plans"])
def test_a_family_that_nothing_acts_on_yet_says_so(tmp_path, caplog, family):
    (tmp_path / "surehand.yaml").write_text(f"builtin: [{family}, data]\n")

    with caplog.at_level(logging.WARNING):
        assemble(read_config(tmp_path / "surehand.yaml"), environment={})

    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        f"The tools of {family} have no effect yet"
    ]
