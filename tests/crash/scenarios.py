"""Scenarios: what is called in a process that dies, and how people answer what waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One call. Without an id of its caller's own it cannot be asked for again."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    call_id: str | None = None


@dataclass(frozen=True)
class Scenario:
    """Calls that are made at the same time, and what people say to them."""

    name: str
    calls: tuple[Asked, ...]
    decision: str = "approve"
    """Of whoever is asked: approve, reject, or nothing, so that the wait expires."""
    edited: Mapping[str, Any] | None = None
    """The arguments that it is approved with, if not with its own."""
    answer: Any = None
    """What a client tool is answered."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    empty: bool = False
    """Whether the file has to be made first."""


def _together() -> tuple[Asked, ...]:
    pays = [Asked("pay", {"to": f"p{number}"}, f"pay-{number}") for number in range(4)]
    wires = [Asked("wire", {"to": f"w{number}"}, f"wire-{number}") for number in range(3)]
    others = [Asked("post", {"to": "ann"}, "post"), Asked("look_up", {"what": "tea"}, "look"), Asked("ask", {}, "ask")]
    return (*pays, *wires, *others, Asked("pay", {"to": "nobody knows"}), Asked("wire", {"to": "nobody knows"}))


_WIRE = Asked("wire", {"to": "bob"}, "wired")
ALL = (
    Scenario("plain", (Asked("pay", {"to": "ann"}),)),
    Scenario("given id", (Asked("pay", {"to": "ann"}, "paid"),)),
    Scenario("repeatable", (Asked("look_up", {"what": "tea"}, "looked"),)),
    Scenario("approved", (Asked("wire", {"to": "bob"}),)),
    Scenario("approved, given id", (_WIRE,)),
    Scenario("approved, edited", (_WIRE,), edited={"to": "eve"}),
    Scenario("rejected", (_WIRE,), decision="reject"),
    Scenario("settled", (Asked("ask", {}, "asked"),), answer={"said": "yes"}),
    Scenario("waits twice", (Asked("ask_first", {}, "asked"),), answer={"said": "no"}),
    Scenario("expired", (_WIRE,), decision="nothing", defaults={"pending_ttl": 0.02}),
    Scenario("verified", (Asked("book", {"what": "room"}, "booked"),)),
    Scenario("verified approval", (Asked("book_confirmed", {"what": "room"}, "booked"),)),
    Scenario("nested", (Asked("travel", {"to": "rome"}, "trip"),)),
    Scenario("together", _together(), answer="yes"),
    Scenario("large output", (Asked("report", {}, "reported"),)),
    Scenario("new file", (Asked("pay", {"to": "ann"}, "paid"),), empty=True),
)
LOAD = Scenario("load", (), answer="yes")
"""Its calls are made by the load itself, and what is left of them is finished like anything else."""
SCENARIOS = {scenario.name: scenario for scenario in (*ALL, LOAD)}
