"""The reference of the HTTP API is what the code says today."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_reference_of_the_http_api_is_up_to_date(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    sys.modules.pop("docs", None)
    from docs.http_api import PAGE, page

    assert PAGE.read_text(encoding="utf-8") == page(), "run scripts/reference"
