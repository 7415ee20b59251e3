"""Durations on the command line."""

from __future__ import annotations

from typing import Any

import click

from surehand.core.durations import parse_duration


class DurationParam(click.ParamType[float | None]):
    """30, 30s, 5m or off."""

    name = "duration"

    def __init__(self, *, allow_zero: bool = False) -> None:
        self._allow_zero = allow_zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        """Seconds, or None for `off`."""
        try:
            found = parse_duration(value)
        except ValueError:
            self.fail(f"{value!r} is no duration: write 30s, 5m or off.", param, ctx)
        if found is not None and found <= 0 and not self._allow_zero:
            self.fail("the time limit must be above zero.", param, ctx)
        return found
