"""The filters of `calls` and `audit`, and the group that lets both list, filter and show."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import click
from click.core import ParameterSource

from surehand.cli.call_ids import resolve_call_id
from surehand.core.durations import parse_duration
from surehand.store.history_filter import DEFAULT_LIMIT
from surehand.store.store import Store


class MomentParam(click.ParamType[float]):
    """A time: a date, a date and a time, or how long ago."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds since the epoch; a date and time without a zone are local."""
        if isinstance(value, float):
            return value
        try:
            seconds = parse_duration(str(value))
        except ValueError:
            seconds = None
        if seconds is not None:
            return time.time() - seconds
        try:
            return datetime.fromisoformat(str(value)).timestamp()
        except ValueError:
            self.fail(f"{value!r} is not a time. Write 2h, 2026-01-31 or '2026-01-31 18:30'.", param, ctx)


_FILTER_OPTIONS = (
    click.option("--call", metavar="CALL_ID", help="Of this call; the beginning of its id is enough."),
    click.option("--tool", metavar="NAME", help="Of this tool."),
    click.option("--user", metavar="USER", help="Of this user."),
    click.option("--session", metavar="SESSION", help="Of this session."),
    click.option("--since", type=MomentParam(), metavar="TIME", help="From this time on: 2h (ago), 2026-01-31."),
    click.option("--until", type=MomentParam(), metavar="TIME", help="Up to this time."),
    click.option(
        "--limit", type=click.IntRange(1), default=DEFAULT_LIMIT, metavar="N", help=f"At most N [{DEFAULT_LIMIT}]."
    ),
)


def with_filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the filter options; the command gets their values by name."""
    for option in reversed(_FILTER_OPTIONS):
        command = option(command)
    return command


async def resolve_filters(store: Store, filters: dict[str, Any]) -> dict[str, Any]:
    """The filters, with the whole id of the call."""
    if filters["call"] is None:
        return filters
    return {**filters, "call": await resolve_call_id(store, filters["call"])}


class HistoryGroup(click.Group):
    """A group that lists without a subcommand, and takes a call id in place of `show CALL_ID`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; a word that is none is a call id."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            args = ["show", *args]
        return super().resolve_command(ctx, args)


def refuse_misplaced_options(ctx: click.Context) -> None:
    """End the command if options stand before a subcommand, which would ignore them."""
    given = [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if ctx.invoked_subcommand is not None and given:
        raise click.UsageError(f"Write --{given[0]} after `{ctx.info_name} {ctx.invoked_subcommand}`.")
