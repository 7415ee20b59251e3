"""The scenarios: the calls that a killed process makes, and how people answer them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RequestedCall:
    """One call. Without a `call_id` from the caller it cannot be repeated."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    call_id: str | None = None


@dataclass(frozen=True)
class Scenario:
    """Calls that are made at the same time, and the answers of people."""

    name: str
    calls: tuple[RequestedCall, ...]
    decision: str = "approve"
    """Answer to an approval request: approve, reject, or nothing, so that it expires."""
    edited_arguments: Mapping[str, Any] | None = None
    """Arguments to approve with instead of the call's own."""
    answer: Any = None
    """The answer to a client tool."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    runs: tuple[str, ...] = ()
    """Ids of the runs of an agent that are driven together with the calls."""
    task: str = "Do it all."
    """The prompt of these runs; the model server has a script for its first word."""
    session: str | None = None
    """The session of the calls. In one, a call that repeats an earlier one which waits follows it."""
    asks_again: bool = False
    """Whether calls without an id are made again after a crash, as a model makes them that got no answer."""
    creates_store: bool = False
    """Whether the process itself must create the store."""


def _concurrent_calls() -> tuple[RequestedCall, ...]:
    pays = [RequestedCall("pay", {"to": f"p{number}"}, f"pay-{number}") for number in range(4)]
    wires = [RequestedCall("wire", {"to": f"w{number}"}, f"wire-{number}") for number in range(3)]
    others = [
        RequestedCall("post", {"to": "ann"}, "post"),
        RequestedCall("look_up", {"what": "tea"}, "look"),
        RequestedCall("ask", {}, "ask"),
    ]
    return (
        *pays,
        *wires,
        *others,
        RequestedCall("pay", {"to": "nobody knows"}),
        RequestedCall("wire", {"to": "nobody knows"}),
    )


_WIRE = RequestedCall("wire", {"to": "bob"}, "wired")
_REPEATED = (
    RequestedCall("wire", {"to": "bob"}),
    RequestedCall("wire", {"to": "bob"}),
    RequestedCall("ask", {"what": "tea"}),
    RequestedCall("pay", {"to": "ann"}),
)
CRASH_SCENARIOS = (
    Scenario("plain", (RequestedCall("pay", {"to": "ann"}),)),
    Scenario("given id", (RequestedCall("pay", {"to": "ann"}, "paid"),)),
    Scenario("repeatable", (RequestedCall("look_up", {"what": "tea"}, "looked"),)),
    Scenario("approved", (RequestedCall("wire", {"to": "bob"}),)),
    Scenario("approved, given id", (_WIRE,)),
    Scenario("approved, edited", (_WIRE,), edited_arguments={"to": "eve"}),
    Scenario("rejected", (_WIRE,), decision="reject"),
    Scenario("settled", (RequestedCall("ask", {}, "asked"),), answer={"said": "yes"}),
    Scenario("waits twice", (RequestedCall("ask_first", {}, "asked"),), answer={"said": "no"}),
    Scenario("expired", (_WIRE,), decision="nothing", defaults={"pending_ttl": 0.02}),
    Scenario("verified", (RequestedCall("book", {"what": "room"}, "booked"),)),
    Scenario("verified approval", (RequestedCall("book_confirmed", {"what": "room"}, "booked"),)),
    Scenario("nested", (RequestedCall("travel", {"to": "rome"}, "trip"),)),
    Scenario("follows a run", (RequestedCall("delegate", {"to": "rome"}, "delegated"),)),
    Scenario("agent", (), runs=("run-1",)),
    Scenario("two runs", (), runs=("run-1", "run-2")),
    Scenario("sub-agents", (), runs=("run-1",), task="Delegate it all."),
    Scenario("repeated", _REPEATED, session="s1", asks_again=True),
    Scenario("together", _concurrent_calls(), answer="yes"),
    Scenario("large output", (RequestedCall("report", {}, "reported"),)),
    Scenario("new file", (RequestedCall("pay", {"to": "ann"}, "paid"),), creates_store=True),
)
AGENT_SCENARIOS = ("agent", "two runs", "sub-agents", "follows a run")
"""The scenarios in which an agent runs."""
LOAD = Scenario("load", (), answer="yes", session="s1")
"""`run_load` makes its calls; open ones are finished as in the other scenarios."""
SCENARIOS = {scenario.name: scenario for scenario in (*CRASH_SCENARIOS, LOAD)}
