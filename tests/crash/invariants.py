"""The invariants of a crash: compares the recorded effects and replies with the contents of the store."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from surehand.core.ids import derive_run_id
from tests.crash.agent_driver import STEERING
from tests.crash.run_log import RunLog
from tests.crash.scenarios import Scenario
from tests.crash.stored_state import Row, StoredState
from tests.crash.tools import REPEATABLE_TOOLS, VERIFIED_TOOLS

CLIENT_TOOLS = frozenset({"ask", "ask_first"})
DELEGATING_TOOLS = frozenset({"travel"})
"""Tools whose calls end with the outcome of their nested call."""
RUN_TOOLS = frozenset({"delegate", "agent__scout"})
"""Tools that start a run, which has the effects."""
PROVISIONAL_CODES = frozenset({"unknown_effect", "unavailable"})
"""Codes that are not final: the call can still get another outcome."""
UNDECIDED_CODES = frozenset({"cancelled", "crashed", "timed_out"})
"""Codes of calls that started and may or may not have had their effect."""


@dataclass
class Evidence:
    """Everything that is left of a run: its log, and the store after each kill and each restart."""

    scenario: Scenario
    run_log: RunLog
    codes: list[int] = field(default_factory=list)
    """Exit codes of the processes."""
    stores_after_kills: list[StoredState] = field(default_factory=list)
    """The store as each killed process left it."""
    final: StoredState | None = None
    """The store when every call had ended."""
    after_restart: StoredState | None = None
    """The store after one more restart."""
    server_kills: int = 0
    """How often the database server was killed: an answer of a model may be lost with it, like with a process."""
    exclusive: bool = True
    """No other process worked on the store while a process died."""

    def add_store_after_kill(self, store: StoredState) -> None:
        """Keep the store as a killed process left it; later lines of the log can say how many kills came before."""
        self.stores_after_kills.append(store)
        self.run_log.note("kills", len(self.stores_after_kills))

    @property
    def unknown(self) -> set[str]:
        """Calls whose effect was unknown, so that a person or `verify` had to answer."""
        return self.final.unknown_effects if self.final else set()


def find_problems(evidence: Evidence) -> list[str]:
    """Describe every violated invariant."""
    assert evidence.final is not None
    assert evidence.after_restart is not None
    return [
        *_check_processes(evidence),
        *_check_calls(evidence, evidence.final),
        *_check_effects(evidence, evidence.final),
        *_check_replies(evidence, evidence.final),
        *_check_unknown_effects(evidence, evidence.final),
        *_check_inbox(evidence.final),
        *_check_runs(evidence.final, has_agent=bool(evidence.scenario.runs)),
        *_check_sub_runs(evidence.final),
        *_check_waits_for_others(evidence.final),
        *_check_repetitions(evidence.final),
        *_check_requests(evidence, evidence.final),
        *_check_restart(evidence, evidence.final, evidence.after_restart),
    ]


def _check_processes(evidence: Evidence) -> Iterator[str]:
    if failed := [code for code in evidence.codes if code not in (0, -9)]:
        yield f"a process ended with {failed}"
    if "Traceback" in (log := (evidence.run_log.folder / "log").read_text()):
        yield f"a process logged a traceback:\n{log[-3000:]}"
    yield from (f"stuck: {calls}" for calls in evidence.run_log.lines("stuck"))
    if evidence.run_log.lines("audit") != [{"problem": None, "unsealed": 0}]:
        yield f"the audit has a problem: {evidence.run_log.lines('audit')}"
    yield from (f"an output cannot be read: {each}" for each in evidence.run_log.lines("read") if not each["ok"])


def _check_calls(evidence: Evidence, final: StoredState) -> Iterator[str]:
    """Every call has ended exactly once."""
    for call_id, row in final.ledger.items():
        if row["state"] != "ended" or row["outcome"] is None:
            yield f"{call_id} is left {row['state']}"
        counts = {"audit": final.audit["outcome", call_id], "journal": final.journal["ended", call_id]}
        if (row["outcome"] or "").startswith('{"failed":"unavailable"'):
            del counts["journal"]  # among these entries may be attempts that were repeated
        for name, count in counts.items():
            if count != 1:
                yield f"the outcome of {call_id} is in the {name} {count} times"
    if twice := [call_id for (kind, call_id), count in final.journal.items() if kind == "ended" and count > 1]:
        yield f"the journal has several ends of {twice}"
    wanted = {requested.call_id for requested in evidence.scenario.calls if requested.call_id}
    if missing := wanted - final.ledger.keys():
        yield f"{missing} is missing in the store"
    if final.owners and evidence.exclusive:  # soon after its start, a server does not report clients as dead
        yield f"owners are left: {final.owners}"
    yield from (f"an output is incomplete: {each}" for each in final.artifacts if each["bytes"] != each["kept"])


def _check_effects(evidence: Evidence, final: StoredState) -> Iterator[str]:
    """The effects match the stored outcomes, and none that is not repeatable happened twice."""
    lines = evidence.run_log.lines("effects")
    effects = Counter(line["call_id"] for line in lines)
    tools = {line["call_id"]: line["tool"] for line in lines}
    for call_id, count in effects.items():
        if tools[call_id] not in REPEATABLE_TOOLS and count > 1:
            yield f"{call_id} of {tools[call_id]} happened {count} times"
        if call_id not in final.ledger:
            yield f"{call_id} of {tools[call_id]} happened, but is missing in the store"
    if followers := final.followed_calls.keys() & effects.keys():
        yield f"{followers} follow other calls, and have happened themselves"
    for call_id, row in final.ledger.items():
        follows = call_id in final.followed_calls
        if row["tool"] not in CLIENT_TOOLS | RUN_TOOLS and row["outcome"] is not None and not follows:
            yield from _check_effect(row, effects[call_id], json.loads(row["outcome"]))
    edited = evidence.scenario.edited_arguments
    for line in lines:
        if edited is not None and line["arguments"] != edited:
            yield f"{line['call_id']} ran with {line['arguments']} instead of {edited}"


def _check_effect(row: Row, count: int, outcome: Any) -> Iterator[str]:
    if "done" in outcome and not count:
        yield f"{row['call_id']} is done, but has not happened"
    if (
        "failed" in outcome
        and count
        and outcome["failed"] not in UNDECIDED_CODES
        and row["tool"] not in DELEGATING_TOOLS
    ):
        yield f"{row['call_id']} ended {outcome['failed']}, but has happened"


def _check_replies(evidence: Evidence, final: StoredState) -> Iterator[str]:
    """Every final reply equals the stored outcome, from the reply on."""
    for line in evidence.run_log.lines("replies"):
        reply = json.loads(line["outcome"]) if line["outcome"] else None
        if reply is not None and reply.get("failed") in PROVISIONAL_CODES:
            continue
        stores = [*(evidence.stores_after_kills if line["part"] == "begin" else ()), final]
        yield from (
            problem for store in stores for problem in _check_reply(line, reply, store.ledger.get(line["call_id"]))
        )


def _check_reply(line: Row, reply: Any, row: Row | None) -> Iterator[str]:
    reply_name = f"the reply to {line['verb']} {line['call_id']}"
    if row is None:
        yield f"{reply_name} was given, but the call is missing in the store"
    elif reply is not None and (row["outcome"] is None or json.loads(row["outcome"]) != reply):
        yield f"{reply_name}: {reply} was the reply, but {row['outcome']} is stored ({row['state']})"


def _check_unknown_effects(evidence: Evidence, final: StoredState) -> Iterator[str]:
    """The effect of a call is unknown if and only if its process died between intent and outcome."""
    if not evidence.exclusive:
        return
    running = {call_id for store in evidence.stores_after_kills for call_id in store.running}
    if unfounded := final.unknown_effects - running:
        yield f"{unfounded} counts as unknown, but did not run when its process died"
    verified = {call_id for call_id, row in final.ledger.items() if row["tool"] in VERIFIED_TOOLS}
    if forgotten := running - final.unknown_effects - verified:
        yield f"{forgotten} ran when its process died, but does not count as unknown"


def _check_inbox(final: StoredState) -> Iterator[str]:
    """The inbox holds the outcome of each call that was pending, once, and nothing else."""
    items = {item["event_id"].removeprefix("tr:"): item for item in final.inbox}
    ended = {call_id for call_id in final.waiting if final.ledger[call_id]["state"] == "ended"}
    if len(items) != len(final.inbox) or items.keys() != ended:
        yield f"the inbox holds {[item['event_id'] for item in final.inbox]}, and {ended} were pending and ended"
    for call_id in ended & items.keys():
        row, outcome = final.ledger[call_id], json.loads(final.ledger[call_id]["outcome"])
        error = {"error": outcome.get("message"), "code": outcome.get("failed")}
        if json.loads(items[call_id]["data"])["result"] != outcome.get("done", error):
            yield f"the inbox holds another outcome of {call_id}: {items[call_id]['data']}"
        if items[call_id]["agent"] != (row["agent"] or ""):
            yield f"the outcome of {call_id} is in the inbox of {items[call_id]['agent']!r}"


def _check_runs(final: StoredState, *, has_agent: bool) -> Iterator[str]:
    """Every run has ended, and every call of its steps has the outcome that the store has of the call."""
    yield from (f"{run['run_id']} is left {run['state']}" for run in final.runs if run["state"] != "done")
    delivered = {call_id for step in final.steps for call_id in json.loads(step["answer"]).get("delivered", ())}
    for call in final.step_calls:
        row = final.ledger.get(call["call_id"])
        told = None if call["outcome"] is None else json.loads(call["outcome"])
        if isinstance(told, dict) and "pending" in told:  # the result came later, as a message
            if call["call_id"] not in delivered:
                yield f"the result of {call['call_id']} was not delivered"
        elif row is None and told not in _outcomes_of_equal_earlier_calls(call, final):
            yield f"the step of {call['call_id']} holds {told}, and no earlier call of the run that it repeats does"
        elif row is not None and row["outcome"] != told:
            yield f"the step of {call['call_id']} holds {told}, and the store {row['outcome']}"
    if lost := [message for message in final.run_messages if message["step"] is None]:
        yield f"{lost} were given to no step"
    given = [message for step in final.steps for message in json.loads(step["answer"]).get("before", ())]
    if has_agent and sum(message["content"] == STEERING for message in given) != len(final.run_messages):
        yield f"{len(final.run_messages)} messages were sent, and the model was shown {given}"
    for row in final.pending:
        if row["inner_run"] is not None and row["state"] != "answered":
            yield f"{row['call_id']} still waits for the run {row['inner_run']}"


def _outcomes_of_equal_earlier_calls(call: Row, final: StoredState) -> list[Any]:
    """The outcomes of calls of earlier steps of the run: a call that repeats one which waits has no row of its own."""
    asked = {(step["run_id"], step["step"]): json.loads(step["answer"])["calls"] for step in final.steps}

    def asked_for(each: Row) -> Any:
        given = asked[each["run_id"], each["step"]][each["position"]]
        return (given["name"], given["arguments"]) if isinstance(given, dict) else given

    earlier = [each for each in final.step_calls if each["run_id"] == call["run_id"] and each["step"] < call["step"]]
    equal = [each["call_id"] for each in earlier if asked_for(each) == asked_for(call)]
    return [final.ledger[call_id]["outcome"] for call_id in equal if call_id in final.ledger]


def _check_sub_runs(final: StoredState) -> Iterator[str]:
    """Every call of an agent ends with the report of a run of its own."""
    reports = {run["run_id"]: run["report"] for run in final.runs}
    for call_id, row in final.ledger.items():
        if row["tool"] != "agent__scout" or row["outcome"] is None:
            continue
        report = json.loads(reports.pop(derive_run_id(call_id), None) or "{}")
        place = json.loads(row["arguments"])["prompt"].partition(" ")[2]
        if json.loads(row["outcome"]) != {"done": f"Scouted {place}."} or report.get("text") != f"Scouted {place}.":
            yield f"{call_id} ended with {row['outcome']}, and its run reported {report}"


def _check_waits_for_others(final: StoredState) -> Iterator[str]:
    """A call that waited for another call, or for a run, has ended with its outcome."""
    reports = {run["run_id"]: json.loads(run["report"] or "{}") for run in final.runs}
    for row in final.pending:
        outcome = json.loads(final.ledger[row["call_id"]]["outcome"] or "null")
        inner = final.ledger.get(row["inner_call"])
        if inner is not None and outcome != json.loads(inner["outcome"] or "null"):
            yield f"{row['call_id']} ended with {outcome}, and {row['inner_call']} with {inner['outcome']}"
        if row["inner_run"] is not None and outcome != {"done": reports[row["inner_run"]].get("text")}:
            yield f"{row['call_id']} ended with {outcome}, and its run reported {reports[row['inner_run']]}"


def _check_repetitions(final: StoredState) -> Iterator[str]:
    """A call that follows another one ends with its outcome; calls of a session that run are not equal at one time."""
    for call_id, first in final.followed_calls.items():
        if final.ledger[call_id]["outcome"] != final.ledger[first]["outcome"]:
            outcomes = final.ledger[call_id]["outcome"], final.ledger[first]["outcome"]
            yield f"{call_id} follows {first}, and they ended with {outcomes}"
    rows = sorted(final.ledger.values(), key=lambda row: float(row["created_at"]))
    in_session = [row for row in rows if row["session"] and row["call_id"] not in final.followed_calls]
    last: dict[tuple[str, str], Row] = {}
    for row in in_session:
        earlier = last.get(key := (row["tool"], row["arguments"]))
        if earlier is not None and row["created_at"] < earlier["ended_at"]:
            yield f"{row['call_id']} of {row['tool']} does not follow {earlier['call_id']}, which had not ended"
        last[key] = row


def _check_requests(evidence: Evidence, final: StoredState) -> Iterator[str]:
    """The model is asked for every answer, and never again for one that was stored when a process died."""
    requests = evidence.run_log.lines("requests")
    asked = {(line["run_id"], line["step"]) for line in requests}
    if missing := {(row["run_id"], row["step"]) for row in final.steps} - asked:
        yield f"the steps {missing} are stored, and the model was not asked"
    times = Counter((line["run_id"], line["step"]) for line in requests)
    deaths = evidence.codes.count(-9) + evidence.server_kills
    for (run_id, step), count in times.items():
        if count > 1 + deaths:  # of two processes that resume a run, one drives it
            yield f"the model was asked {count} times for step {step} of {run_id}, after {deaths} deaths"
    for line in requests:
        for number, store in enumerate(evidence.stores_after_kills, start=1):
            is_stored = any((row["run_id"], row["step"]) == (line["run_id"], line["step"]) for row in store.steps)
            if is_stored and line["kills"] >= number:
                yield f"the model was asked again for step {line['step']}, which was stored"


def _check_restart(evidence: Evidence, final: StoredState, after_restart: StoredState) -> Iterator[str]:
    """One more restart changes nothing."""
    names = ["ledger", "pending", "inbox", "runs", "steps", "step_calls", "run_messages"]
    if evidence.exclusive:  # soon after its start, a server does not report clients as dead
        names.append("owners")
    for name in names:
        if getattr(final, name) != getattr(after_restart, name):
            yield f"{name} has changed: {getattr(final, name)} is now {getattr(after_restart, name)}"
