"""Whose call it is: what events, waits and the journal say of it, who sees it, and which tools a scope may call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from surehand import Call, Context, DefinitionError, Done, Failed, Pending, Provider, Runtime, Tool, filtered, tool
from surehand.testing import ManualClock

WHOSE = {
    "user": "ann",
    "session": "s1",
    "agent": "helper",
    "space": "lobby",
    "turn": "t1",
    "task": "job",
}


@tool
async def echo(text: str) -> str:
    """Say it again."""
    return text


@tool(confirm=True, display={"icon": "coin"}, intent="action")
async def pay(amount: int, ctx: Context) -> str:
    """Pay."""
    ctx.report("paying")
    return f"paid {amount}"


@tool
async def outer(ctx: Context) -> Any:
    """Call another tool."""
    return (await ctx.call("echo", {"text": "inner"})).unwrap()


def whose(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in WHOSE}


async def test_every_event_says_whose_call_it_is() -> None:
    events: list[Any] = []
    async with Runtime(pay) as runtime:
        runtime.listen(events.append)
        [asked] = await runtime.scope(**WHOSE).call_many([Call("pay", {"amount": 1}, parent="c0", model_id="call_1")])
        await runtime.approve(asked.meta.call_id)

    kinds = [type(event).__name__ for event in events]
    assert kinds == [
        "CallStarted",
        "CallPending",
        "CallEnded",
        "CallSettled",
        "CallResumed",
        "CallProgress",
        "CallEnded",
    ]
    for event in events:
        assert whose(event) == WHOSE, type(event)
        assert (event.parent, event.model_id) == ("c0", "call_1")
        assert (event.intent, event.display) == ("action", {"icon": "coin"})


async def test_a_queued_call_says_whose_it_is() -> None:
    from surehand import Queue

    events: list[Any] = []
    clock = ManualClock()

    @tool(queue="one")
    async def step() -> None:
        """Step."""
        await clock.sleep(1)

    async with Runtime(step, queues={"one": Queue(concurrent=1)}, clock=clock) as runtime:
        runtime.listen(events.append)
        scope = runtime.scope(**WHOSE)
        import asyncio

        both = asyncio.gather(scope.call("step"), scope.call("step"))
        await clock.advance(1)
        await clock.advance(1)
        await both

    [queued] = [event for event in events if type(event).__name__ == "CallQueued"]
    assert whose(queued) == WHOSE


async def test_an_unknown_tools_events_say_whose_call_it_is() -> None:
    events: list[Any] = []
    async with Runtime(echo) as runtime:
        runtime.listen(events.append)
        await runtime.scope(**WHOSE).call("nothing")

    assert [type(event).__name__ for event in events] == ["CallStarted", "CallEnded"]
    assert all(whose(event) == WHOSE for event in events)


async def test_a_wait_says_whose_it_is_and_which_run() -> None:
    async with Runtime(pay) as runtime:
        await runtime.scope(**WHOSE).call_many([Call("pay", {"amount": 1}, parent="c0", model_id="call_1")])
        [wait] = await runtime.pending()

    assert whose(wait) == WHOSE
    assert (wait.parent, wait.model_id, wait.run) == ("c0", "call_1", "t1")
    assert (wait.intent, wait.display) == ("action", {"icon": "coin"})


async def test_an_approver_is_told_whose_call_it_is() -> None:
    seen: list[Any] = []

    async def approver(wait: Any) -> bool:
        seen.append(wait)
        return True

    async with Runtime(pay, approver=approver) as runtime:
        await runtime.scope(**WHOSE).call("pay", {"amount": 1})

    assert whose(seen[0]) == WHOSE


# A scope sees its own


async def test_a_scope_hears_only_its_own_users_calls() -> None:
    heard: list[Any] = []
    everything: list[Any] = []
    async with Runtime(echo) as runtime:
        runtime.scope(user="alice").listen(heard.append)
        runtime.listen(everything.append)
        await runtime.scope(user="bob").call("echo", {"text": "secret"})
        await runtime.call("echo", {"text": "nobody's"})
        await runtime.scope(user="alice", session="s1").call("echo", {"text": "mine"})
        await runtime.scope(user="alice", session="s2").call("echo", {"text": "mine too"})

    assert [event.session for event in heard] == ["s1", "s1", "s2", "s2"]
    assert len(everything) == 8


async def test_a_scope_with_a_session_hears_that_session_alone() -> None:
    heard: list[Any] = []
    async with Runtime(echo) as runtime:
        stop = runtime.scope(user="alice", session="s1").listen(heard.append)
        await runtime.scope(user="alice", session="s2").call("echo", {"text": "other"})
        await runtime.scope(user="alice", session="s1").call("echo", {"text": "mine"})
        stop()
        await runtime.scope(user="alice", session="s1").call("echo", {"text": "late"})

    assert [event.session for event in heard] == ["s1", "s1"]


async def test_the_events_of_a_scope_are_its_own() -> None:
    async with Runtime(echo) as runtime:
        events = runtime.scope(user="alice").events()
        await runtime.scope(user="bob").call("echo", {"text": "secret"})
        await runtime.scope(user="alice").call("echo", {"text": "mine"})
        started = await anext(events)
        await events.aclose()  # type: ignore[attr-defined]

    assert (started.user, started.arguments) == ("alice", {"text": "mine"})


async def test_the_pending_calls_of_a_scope_are_its_own() -> None:
    async with Runtime(pay) as runtime:
        await runtime.scope(user="bob").call("pay", {"amount": 1})
        await runtime.scope(user="alice", session="s1").call("pay", {"amount": 2})

        assert [wait.arguments for wait in await runtime.scope(user="alice").pending()] == [{"amount": 2}]
        assert await runtime.scope(user="alice", session="s2").pending() == []
        assert len(await runtime.pending()) == 2


# The journal


async def test_unknown_refused_and_denied_calls_are_in_the_journal_in_memory() -> None:
    policy = [{"tools": "echo", "decision": "deny"}]
    async with Runtime(echo, outer, policy=policy, journal=True) as runtime:
        runtime.catalogue.toolset("small", "echo")
        await runtime.call("x" * 300)
        await runtime.call("echo", {"text": "hi"})
        await runtime.scope(toolset="small").call("outer")

        entries = [(entry.tool, entry.status) for entry in runtime.journal]

    assert entries == [("x" * 200, "not_found"), ("echo", "denied"), ("outer", "denied")]


async def test_unknown_refused_and_denied_calls_are_in_the_stores_journal(tmp_path: Any) -> None:
    policy = [{"tools": "echo", "decision": "deny"}]
    async with Runtime(echo, outer, policy=policy, store=tmp_path / "s.db") as runtime:
        runtime.catalogue.toolset("small", "echo")
        await runtime.scope(user="ann").call("x" * 300)
        await runtime.call("\ud800")
        await runtime.call("echo", {"text": "hi"})
        await runtime.scope(toolset="small").call("outer")
        await runtime._runtime_parts.journal.writer.flush()
        rows = await runtime.store.journal.after()

    assert [(row.tool, row.status) for row in rows] == [
        ("x" * 200, "not_found"),
        ("'\\ud800'", "not_found"),
        ("echo", "denied"),
        ("outer", "denied"),
    ]
    assert rows[0].user == "ann"


async def test_journal_lines_and_audit_rows_say_whose_call_it_is(tmp_path: Any) -> None:
    async with Runtime(pay, store=tmp_path / "s.db") as runtime:
        call = Call("pay", {"amount": 1}, parent="c0", model_id="call_1")
        [asked] = await runtime.scope(**WHOSE).call_many([call])
        call_id = asked.meta.call_id
        await runtime.approve(call_id)
        lines = await runtime.store.journal.list(call=call_id)
        rows = await runtime.store.audit.list(call=call_id)
        await runtime.store.audit.seal()
        verified = await runtime.store.audit.verify()

    assert {line.kind for line in lines} == {"pending", "settled", "ended"}
    assert {row.kind for row in rows} == {"wait", "answer", "intent", "outcome"}
    for entry in [*lines, *rows]:
        assert whose(entry) == WHOSE, entry.kind
        assert (entry.parent, entry.model_id) == ("c0", "call_1")
        assert (entry.intent, entry.display) == ("action", {"icon": "coin"})
    assert verified.problem is None


async def test_a_plain_durable_call_says_whose_it_is(tmp_path: Any) -> None:
    async with Runtime(echo, store=tmp_path / "s.db") as runtime:
        scope = runtime.scope(user="ann", session="s1", agent="helper")
        for _ in range(2):
            await scope.call("echo", {"text": "hi"})
        lines = await runtime.store.journal.list()
        rows = await runtime.store.audit.list()

    assert {(line.user, line.session, line.agent, line.intent) for line in lines} == {
        ("ann", "s1", "helper", "compute")
    }
    assert {(row.user, row.session, row.agent, row.intent) for row in rows} == {("ann", "s1", "helper", "compute")}


async def test_inbox_items_and_space_messages_say_whose_call_it_was(tmp_path: Any) -> None:
    async with Runtime(pay, store=tmp_path / "s.db") as runtime:
        space = await runtime.store.spaces.create("Lobby")
        mine = {**WHOSE, "space": space.space_id}
        call = Call("pay", {"amount": 1}, parent="c0", model_id="call_1")
        [asked] = await runtime.scope(**mine).call_many([call])
        await runtime.approve(asked.meta.call_id)
        [item] = await runtime.store.inbox.peek("helper")
        [message] = await runtime.store.spaces.history(space.space_id)

    expected = {**mine, "parent": "c0", "model_id": "call_1", "intent": "action", "display": {"icon": "coin"}}
    for carried in (item.data, message.content):
        assert {name: carried[name] for name in expected} == expected


# Toolsets limit what can be called


async def test_a_scope_can_call_no_more_than_its_toolset() -> None:
    async with Runtime(echo, outer) as runtime:
        runtime.catalogue.toolset("small", "echo")
        scope = runtime.scope(toolset="small")
        refused = await scope.call("outer")

        assert (await scope.call("echo", {"text": "hi"})).data == "hi"
        assert isinstance(refused, Failed)
        assert refused.code == "denied"
        assert refused.message == "outer is not allowed here: it is not in the toolset 'small' of this scope."
        assert [each["function"]["name"] for each in scope.describe("openai")] == ["echo"]


async def test_a_tool_cannot_call_what_its_scopes_toolset_lacks() -> None:
    async with Runtime(echo, outer) as runtime:
        runtime.catalogue.toolset("small", "outer")
        outcome = await runtime.scope(toolset="small").call("outer")

    assert isinstance(outcome, Failed)
    assert outcome.code == "denied"


async def test_a_narrower_scope_keeps_the_outer_toolset() -> None:
    async with Runtime(echo, outer) as runtime:
        runtime.catalogue.toolset("small", "echo")
        runtime.catalogue.toolset("all", "*")
        scope = runtime.scope(toolset="small").scope(toolset="all", user="ann")
        [outcome] = await scope.call_many([Call("outer", {}, agent="x")])

    assert isinstance(outcome, Failed)
    assert outcome.code == "denied"


async def test_a_changed_toolset_counts_at_once() -> None:
    async with Runtime(echo, outer) as runtime:
        runtime.catalogue.toolset("small", "echo")
        scope = runtime.scope(toolset="small")
        before = await scope.call("outer")
        runtime.catalogue.toolset("small", "echo", "outer")
        after = await scope.call("outer")

    assert not before.ok
    assert after.ok


async def test_a_scope_has_its_own_tools_beside_its_toolset() -> None:
    async with Runtime(echo) as runtime:
        runtime.catalogue.toolset("small", "echo")
        outcome = await runtime.scope(toolset="small", tools=[outer]).call("outer")

    assert outcome == Done("inner")


async def test_an_unknown_toolset_is_an_error() -> None:
    async with Runtime(echo) as runtime:
        with pytest.raises(KeyError, match="no toolset 'smal'"):
            runtime.scope(toolset="smal")


# Refusals name their reason, and suggestions only what may be used


class Git(Provider):
    namespace = "git"

    async def tools(self) -> Sequence[Tool[..., Any]]:
        return [tool.provided(name, effects={"read"}) for name in ("push", "pull")]

    async def invoke(self, call: Call, context: Context) -> Any:
        return call.tool


async def test_a_tool_filtered_out_of_a_provider_says_so() -> None:
    async with Runtime(filtered(Git(), deny="push")) as runtime:
        outcome = await runtime.call("git__push")

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message) == ("denied", "git__push is not allowed here: it is filtered out.")


async def test_a_tool_filtered_out_of_a_list_says_so() -> None:
    async with Runtime(filtered([echo, outer], allow="echo")) as runtime:
        outcome = await runtime.call("outer")

    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.message) == ("denied", "outer is not allowed here: it is filtered out.")


async def test_a_tool_that_was_left_out_for_a_reason_says_it() -> None:
    async with Runtime(echo) as runtime:
        runtime.catalogue.leave_out("shop__*", "the server shop is switched off")
        outcome = await runtime.call("shop__buy")

    assert outcome.text == "(tool failed: shop__buy is not allowed here: the server shop is switched off.)"


async def test_suggestions_never_name_what_the_caller_may_not_use() -> None:
    @tool(audience="user")
    async def echos() -> None:
        """For people."""

    @tool
    async def echo2() -> None:
        """Denied by policy."""

    policy = [{"tools": "echo2", "decision": "deny"}]
    async with Runtime(echo, outer, echos, echo2, policy=policy) as runtime:
        runtime.catalogue.toolset("small", "outer")
        everyone = await runtime.call("echoo")
        limited = await runtime.scope(toolset="small").call("echoo")

    assert everyone.text.endswith("Did you mean echo?)")
    assert "echo" not in limited.text.replace("'echoo'", "")


async def test_suggestions_name_the_scopes_own_tools() -> None:
    async with Runtime(outer) as runtime:
        outcome = await runtime.scope(tools=[echo]).call("ecko")

    assert "Did you mean echo?" in outcome.text


async def test_an_alias_of_two_tools_is_suggested_once() -> None:
    first, second = (echo.evolve(name=name, aliases=("mount",)) for name in ("one", "two"))
    async with Runtime(first, second) as runtime:
        outcome = await runtime.call("mont")

    assert outcome.text.endswith("Did you mean mount?)")


async def test_an_unknown_namespace_and_an_unknown_tool_of_a_known_one_are_told_apart() -> None:
    async with Runtime(Git()) as runtime:
        no_tool = await runtime.call("git__fly")
        no_namespace = await runtime.call("svn__push")

    assert "git has no tool 'fly'." in no_tool.text
    assert "There is no namespace 'svn'; known namespaces: git." in no_namespace.text


# Names as models write them


@pytest.mark.parametrize("name", ["Echo", "functions.echo", "functions.Echo", "ECHO"])
async def test_a_models_spelling_of_a_name_is_understood(name: str) -> None:
    async with Runtime(echo) as runtime:
        assert await runtime.call(name, {"text": "hi"}) == Done("hi")


async def test_two_tools_that_differ_only_in_case_are_not_mixed_up() -> None:
    @tool(name="Echo")
    async def loud(text: str) -> str:
        """Shout."""
        return text.upper()

    async with Runtime(echo, loud) as runtime:
        assert await runtime.call("Echo", {"text": "hi"}) == Done("HI")
        assert not (await runtime.call("ECHO", {"text": "hi"})).ok


# Tools that a session's client brings


PICK = tool.client("pick", "Let the person pick.", parameters={"type": "object"}, reply="later")


async def test_every_scope_of_a_session_has_the_tools_it_offers() -> None:
    async with Runtime(echo) as runtime:
        before = runtime.scope(user="ann", session="s1")
        runtime.scope(user="ann", session="s1").offer(PICK)
        after = runtime.scope(user="ann", session="s1", agent="helper")
        other = runtime.scope(user="bob", session="s1")

        assert isinstance(await before.call("pick"), Pending)
        assert isinstance(await after.call("pick"), Pending)
        assert [each["function"]["name"] for each in after.describe("openai")] == ["pick", "echo"]
        assert (await other.call("pick")).code == "not_found"  # type: ignore[union-attr]
        assert (await runtime.call("pick")).code == "not_found"  # type: ignore[union-attr]
        assert "pick" not in (await other.call("pik")).text


async def test_an_offered_tool_is_answered_in_another_process(tmp_path: Any) -> None:
    async with Runtime(echo, store=tmp_path / "s.db") as first:
        scope = first.scope(user="ann", session="s1")
        scope.offer(PICK)
        waiting = await scope.call("pick", {"of": 3})
        assert isinstance(waiting, Pending)

        async with Runtime(echo, store=tmp_path / "s.db") as second:
            answered = await second.scope(user="ann", session="s1").settle(waiting.call_id, "two")

        assert answered == Done("two")
        assert (await scope.status(waiting.call_id)).outcome == Done("two")  # type: ignore[union-attr]


async def test_a_session_cannot_offer_a_tool_under_a_name_of_the_runtime() -> None:
    async with Runtime(echo) as runtime:
        with pytest.raises(DefinitionError, match="the runtime has a tool of that name"):
            runtime.scope(session="s1").offer(echo)
        with pytest.raises(TypeError, match="a scope with a session"):
            runtime.scope(user="ann").offer(PICK)


async def test_a_tool_for_people_is_refused_with_that_reason_and_is_not_unknown() -> None:
    @tool(audience="user")
    async def open_door() -> str:
        """Open the door."""
        return "open"

    async with Runtime(open_door) as runtime:
        refused = await runtime.call("open_door")
        opened = await runtime.dispatch("open_door")

    assert isinstance(refused, Failed)
    assert refused.code == "denied"
    assert refused.message == "open_door is not allowed here: it is for people, who run it with runtime.dispatch."
    assert opened.data == "open"


async def test_a_tool_that_nobody_can_run_cannot_be_offered() -> None:
    async with Runtime() as runtime:
        with pytest.raises(DefinitionError, match="no call of it can run"):
            runtime.scope(session="s1").offer(tool.provided("orphan", "Of no provider."))


async def test_the_name_as_its_developer_wrote_it_is_that_tool() -> None:
    @tool(name="read file")
    async def read_one() -> str:
        """Read one."""
        return "one"

    @tool(name="read_file")
    async def read_other() -> str:
        """Read the other."""
        return "other"

    async with Runtime(read_one, read_other) as runtime:
        assert [(await runtime.call(name)).data for name in ("read file", "read_file")] == ["one", "other"]
