"""Judge: compares what happened in the world with what the store says, and what people were told."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.crash.remains import Remains, Row
from tests.crash.scenarios import Scenario
from tests.crash.tools import REPEATABLE, VERIFIED
from tests.crash.world import World

CLIENTS = frozenset({"ask", "ask_first"})
FOLLOWERS = frozenset({"travel"})
"""Tools whose calls end as the call does that they wait for."""
PROVISIONAL = frozenset({"unknown_effect", "unavailable"})
"""Codes that are no outcome: the call may yet have one."""
UNDECIDED = frozenset({"cancelled", "crashed", "timed_out"})
"""Codes of calls that began, and may or may not have had their effect."""


@dataclass
class Evidence:
    """All that is left of a run: the world, and the store after each death and each restart."""

    scenario: Scenario
    world: World
    codes: list[int] = field(default_factory=list)
    """How the processes ended."""
    deaths: list[Remains] = field(default_factory=list)
    """The store as each process left it that was killed."""
    last: Remains | None = None
    """The store when all was finished, and after one more restart."""
    again: Remains | None = None
    alone: bool = True
    """Whether nobody else was at work while a process died."""

    @property
    def unknown(self) -> set[str]:
        """Calls that somebody had to find out about."""
        return self.last.doubted if self.last else set()


def problems(evidence: Evidence) -> list[str]:
    """Every promise that was broken, in words."""
    assert evidence.last is not None
    assert evidence.again is not None
    return [
        *_processes(evidence),
        *_calls(evidence, evidence.last),
        *_effects(evidence, evidence.last),
        *_told(evidence, evidence.last),
        *_doubts(evidence, evidence.last),
        *_inbox(evidence.last),
        *_again(evidence.last, evidence.again),
    ]


def _processes(evidence: Evidence) -> Iterator[str]:
    if failed := [code for code in evidence.codes if code not in (0, -9)]:
        yield f"a process ended with {failed}"
    if "Traceback" in (log := (evidence.world.folder / "log").read_text()):
        yield f"a process complained:\n{log[-3000:]}"
    yield from (f"stuck: {calls}" for calls in evidence.world.lines("stuck"))
    if evidence.world.lines("audit") != [{"problem": None, "unsealed": 0}]:
        yield f"the audit is not in order: {evidence.world.lines('audit')}"
    yield from (f"an output cannot be read: {each}" for each in evidence.world.lines("read") if not each["ok"])


def _calls(evidence: Evidence, last: Remains) -> Iterator[str]:
    """Every call has ended, once."""
    for call_id, row in last.ledger.items():
        if row["state"] != "ended" or row["outcome"] is None:
            yield f"{call_id} is left {row['state']}"
        for name, told in (("audit", last.audit["outcome", call_id]), ("journal", last.journal["ended", call_id])):
            if told != 1:
                yield f"the outcome of {call_id} is in the {name} {told} times"
    if twice := [call_id for (kind, call_id), count in last.journal.items() if kind == "ended" and count > 1]:
        yield f"the journal tells more than once of the end of {twice}"
    wanted = {asked.call_id for asked in evidence.scenario.calls if asked.call_id}
    if missing := wanted - last.ledger.keys():
        yield f"{missing} is forgotten"
    if last.owners and evidence.alone:  # for a while after its start, a server takes nobody for dead
        yield f"owners are left: {last.owners}"
    yield from (f"an output is not whole: {each}" for each in last.artifacts if each["bytes"] != each["kept"])


def _effects(evidence: Evidence, last: Remains) -> Iterator[str]:
    """What happened is what the store says, and it happened once."""
    lines = evidence.world.lines("effects")
    effects = Counter(line["call_id"] for line in lines)
    tools = {line["call_id"]: line["tool"] for line in lines}
    for call_id, count in effects.items():
        if tools[call_id] not in REPEATABLE and count > 1:
            yield f"{call_id} of {tools[call_id]} happened {count} times"
        if call_id not in last.ledger:
            yield f"{call_id} of {tools[call_id]} happened, and the store does not know of it"
    for call_id, row in last.ledger.items():
        if row["tool"] not in CLIENTS and row["outcome"] is not None:
            yield from _effect(row, effects[call_id], json.loads(row["outcome"]))
    edited = evidence.scenario.edited
    for line in lines:
        if edited is not None and line["arguments"] != edited:
            yield f"{line['call_id']} ran with {line['arguments']} instead of {edited}"


def _effect(row: Row, count: int, outcome: Any) -> Iterator[str]:
    if "done" in outcome and not count:
        yield f"{row['call_id']} is done, and has not happened"
    if "failed" in outcome and count and outcome["failed"] not in UNDECIDED and row["tool"] not in FOLLOWERS:
        yield f"{row['call_id']} ended {outcome['failed']}, and has happened"


def _told(evidence: Evidence, last: Remains) -> Iterator[str]:
    """What people were told is so, and was so from then on."""
    for line in evidence.world.lines("told"):
        told = json.loads(line["outcome"]) if line["outcome"] else None
        if told is not None and told.get("failed") in PROVISIONAL:
            continue
        stores = [*(evidence.deaths if line["part"] == "begin" else ()), last]
        yield from (problem for store in stores for problem in _kept(line, told, store.ledger.get(line["call_id"])))


def _kept(line: Row, told: Any, row: Row | None) -> Iterator[str]:
    what = f"after {line['verb']} {line['call_id']}"
    if row is None:
        yield f"{what} was told, and the store does not know of it"
    elif told is not None and (row["outcome"] is None or json.loads(row["outcome"]) != told):
        yield f"{what} {told} was told, and {row['outcome']} is stored ({row['state']})"


def _doubts(evidence: Evidence, last: Remains) -> Iterator[str]:
    """Nobody knows whether a call happened exactly if its process died between intent and outcome."""
    if not evidence.alone:
        return
    running = {call_id for death in evidence.deaths for call_id in death.running}
    if unfounded := last.doubted - running:
        yield f"{unfounded} counts as unknown, and did not run when its process died"
    verified = {call_id for call_id, row in last.ledger.items() if row["tool"] in VERIFIED}
    if forgotten := running - last.doubted - verified:
        yield f"{forgotten} ran when its process died, and nobody was asked about it"


def _inbox(last: Remains) -> Iterator[str]:
    """Whoever was told to wait finds the outcome in the inbox, once; nobody else finds anything."""
    items = {item["event_id"].removeprefix("tr:"): item for item in last.inbox}
    ended = {call_id for call_id in last.waited if last.ledger[call_id]["state"] == "ended"}
    if len(items) != len(last.inbox) or items.keys() != ended:
        yield f"the inbox holds {[item['event_id'] for item in last.inbox]}, and {ended} waited and ended"
    for call_id in ended & items.keys():
        row, outcome = last.ledger[call_id], json.loads(last.ledger[call_id]["outcome"])
        error = {"error": outcome.get("message"), "code": outcome.get("failed")}
        if json.loads(items[call_id]["data"])["result"] != outcome.get("done", error):
            yield f"the inbox tells of another outcome of {call_id}: {items[call_id]['data']}"
        if items[call_id]["agent"] != (row["agent"] or ""):
            yield f"the outcome of {call_id} is in the inbox of {items[call_id]['agent']!r}"


def _again(last: Remains, again: Remains) -> Iterator[str]:
    """Another restart changes nothing."""
    for name in ("ledger", "pending", "inbox", "owners"):
        if getattr(last, name) != getattr(again, name):
            yield f"{name} has changed: {getattr(last, name)} is now {getattr(again, name)}"
