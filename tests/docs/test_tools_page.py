"""The reference of the built-in tools is what the code says today."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_reference_of_the_built_in_tools_is_up_to_date(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    sys.modules.pop("docs", None)
    from docs.tools import PAGE, page

    assert PAGE.read_text(encoding="utf-8") == page(), "run scripts/reference"
