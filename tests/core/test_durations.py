"""Durations and rates as people write them."""

from typing import Any

import pytest

from surehand.core.durations import parse_duration, parse_rate


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (30, 30.0), (0.5, 0.5), ("30", 30.0), ("30s", 30.0), ("1.5s", 1.5), ("250ms", 0.25), ("5m", 300.0),
        ("5min", 300.0), ("2h", 7200.0), ("1d", 86400.0), ("1w", 604800.0), ("1mo", 2_592_000.0), ("1y", 31_536_000.0),
        (" 5 M ", 300.0), ("off", None), ("OFF", None), ("0s", 0.0),
    ],
)  # fmt: skip
def test_a_duration_is_a_number_with_a_unit(written: Any, meant: float | None) -> None:
    assert parse_duration(written) == meant


@pytest.mark.parametrize("written", ["", "soon", "5 parsecs", "-5s", "1,5s", "s", "5s5", "1e3", "5s\n6"])
def test_anything_else_is_no_duration(written: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(written)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("30/min", (30, 60.0)), ("5/s", (5, 1.0)), ("1000 / hour", (1000, 3600.0)), ("10/5m", (10, 300.0))],
)
def test_a_rate_is_a_count_per_duration(written: str, meant: tuple[int, float]) -> None:
    assert parse_rate(written) == meant


@pytest.mark.parametrize("written", ["30", "0/min", "x/min", "-1/s", "1.5/s", "30/", "30/0s", "5/off"])
def test_any_other_text_is_not_a_rate(written: str) -> None:
    with pytest.raises(ValueError, match=r"is not a (rate|duration)"):
        parse_rate(written)


def test_not_a_number_is_not_a_duration():
    with pytest.raises(ValueError, match="NaN is not a duration"):
        parse_duration(float("nan"))
