"""Call ids on the command line: any unique prefix names a call, and tables show ids only as long as they need to be."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from surehand.cli.exit_codes import EXIT_USAGE, CommandExit
from surehand.cli.lifecycle import open_store_for_reading, run_coroutine
from surehand.cli.options import RuntimeOptions
from surehand.store.store import Store

SHORT_ID_LENGTH = 16
"""Characters of an id in a table: the time in milliseconds, and 16 random bits."""
MAX_CANDIDATES = 10
_WHOLE_ID = re.compile(r"[0-9a-f]{36}")


def find_call_id(options: RuntimeOptions, prefix: str, *, pending_first: bool = False) -> str:
    """The id that a prefix stands for; the prefix itself if no call has it. Several calls end the command.

    Args:
        pending_first: if calls that wait for an answer begin so, the others do not count.
    """
    if not prefix or _WHOLE_ID.fullmatch(prefix):
        return prefix
    return run_coroutine(_find_in_store(options.require_store_address(), prefix, pending_first))


def find_call_ids(options: RuntimeOptions, prefixes: Iterable[str]) -> list[str]:
    """The ids, each once, that prefixes of calls which wait for an answer stand for."""
    return list(dict.fromkeys(find_call_id(options, prefix, pending_first=True) for prefix in prefixes))


async def _find_in_store(address: str, prefix: str, pending_first: bool) -> str:
    async with open_store_for_reading(address) as store:
        return await resolve_call_id(store, prefix, pending_first=pending_first)


async def resolve_call_id(store: Store, prefix: str, *, pending_first: bool = False) -> str:
    """The same in a store that is open."""
    known = await store.find_calls(prefix, limit=MAX_CANDIDATES + 1)
    if prefix in known:
        return prefix
    if pending_first:
        rows = await store.pending.list_open()
        waiting = {row.call.call_id: row.call.tool for row in rows if row.call.call_id.startswith(prefix)}
        known = waiting or known
    return choose_candidate(prefix, known)


def choose_candidate(prefix: str, tools_by_id: Mapping[str, str]) -> str:
    """The one call whose id begins so; the prefix itself if there is none. Several end the command."""
    if prefix in tools_by_id or not tools_by_id:
        return prefix
    if len(tools_by_id) == 1:
        return next(iter(tools_by_id))
    shown = [f"\n{call_id} ({tool})" for call_id, tool in sorted(tools_by_id.items())[:MAX_CANDIDATES]]
    more = "\n..." if len(tools_by_id) > MAX_CANDIDATES else ""
    raise CommandExit(
        EXIT_USAGE, f"{prefix[:80]} is the beginning of several call ids. Give more of it:{''.join(shown)}{more}"
    )


def shorten_ids(call_ids: Iterable[str], others: Collection[str] = ()) -> dict[str, str]:
    """Each id, cut to a length at which no two are equal."""
    distinct = {*call_ids, *others}
    length = SHORT_ID_LENGTH
    longest = max(map(len, distinct), default=0)
    while length < longest and len({call_id[:length] for call_id in distinct}) < len(distinct):
        length += 4
    return {call_id: call_id[:length] for call_id in distinct}
