"""The space that an agent entered is the active one for the visible calls of its session."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from surehand import Context, Runtime, Store, tool
from surehand.builtin.agent.spaces import spaces

ran: list[str] = []


@tool
async def weather(city: str) -> dict[str, object]:
    """Tell the weather."""
    ran.append(city)
    return {"city": city, "degrees": 21}


@tool(confirm=True)
async def pay(amount: int) -> dict[str, int]:
    """Pay."""
    return {"paid": amount}


@tool(visible=False)
async def where(ctx: Context) -> str | None:
    """Tell the active space."""
    return ctx.space


@tool(visible=False)
async def outer(ctx: Context) -> object:
    """Ask for the weather."""
    return (await ctx.call("weather", {"city": "Oslo"})).data


@asynccontextmanager
async def office(**options: object) -> AsyncIterator[Runtime]:
    ran.clear()
    tools = (weather, pay, where, outer, spaces())
    async with Store.open() as store, Runtime(*tools, store=store, **options) as runtime:
        for space in ("launch", "office"):
            await store.spaces.create(space)
            await store.spaces.join(space, "ada", "agent")
            await store.spaces.join(space, "bob", "agent")
        yield runtime


async def shown(runtime: Runtime, space: str) -> list[tuple[str, str]]:
    history = await runtime.store.spaces.history(space)
    return [(message.content["toolName"], message.content["status"]) for message in history]


async def test_enter_space_makes_that_space_active_for_the_visible_calls_of_its_session(caplog):
    async with office() as runtime:
        ada = runtime.scope(agent="ada", session="s1")
        await ada.call("enter_space", {"spaceId": "launch"})
        with caplog.at_level(logging.WARNING, "surehand"):
            await ada.call("weather", {"city": "Rome"})
            await runtime.scope(agent="ada", session="s1").call("weather", {"city": "Bern"}, call_id="c1")

        assert await shown(runtime, "launch") == [("weather", "complete")] * 2
        assert (await ada.call("where")).data == "launch"
        assert caplog.text == ""


async def test_a_call_made_by_another_call_shows_in_the_space_that_was_entered():
    async with office() as runtime:
        ada = runtime.scope(agent="ada", session="s1", space="office")
        await ada.call("enter_space", {"spaceId": "launch"})
        await ada.call("outer")

        assert await shown(runtime, "launch") == [("weather", "complete")]
        assert await shown(runtime, "office") == []


async def test_other_sessions_and_agents_stay_where_they_are(caplog):
    async with office() as runtime:
        await runtime.scope(agent="ada", session="s1").call("enter_space", {"spaceId": "launch"})
        with caplog.at_level(logging.WARNING, "surehand"):
            await runtime.scope(agent="ada", session="s2").call("weather", {"city": "Rome"})
            await runtime.scope(agent="bob", session="s1").call("weather", {"city": "Rome"})
        await runtime.scope(agent="bob", session="s1", space="office").call("weather", {"city": "Rome"})

        assert caplog.text.count("no space is active") == 2
        assert await shown(runtime, "launch") == []
        assert await shown(runtime, "office") == [("weather", "complete")]


async def test_a_call_without_a_space_is_warned_about_once_though_it_waits(caplog):
    async with office() as runtime:
        with caplog.at_level(logging.WARNING, "surehand"):
            waits = await runtime.scope(agent="ada", session="s1").call("pay", {"amount": 5})
            await runtime.approve(waits.call_id)

        assert caplog.text.count("no space is active") == 1


async def test_a_space_that_was_left_shows_no_more_calls(caplog):
    async with office() as runtime:
        ada = runtime.scope(agent="ada", session="s1", space="office")
        await ada.call("enter_space", {"spaceId": "launch"})
        await ada.call("leave_space")
        with caplog.at_level(logging.WARNING, "surehand"):
            await ada.call("weather", {"city": "Rome"})

        assert await shown(runtime, "launch") == await shown(runtime, "office") == []
        assert "no space is active" in caplog.text


async def test_a_call_that_waits_ends_in_the_space_where_it_was_posted():
    async with office() as runtime:
        ada = runtime.scope(agent="ada", session="s1")
        await ada.call("enter_space", {"spaceId": "launch"})
        pending = await ada.call("pay", {"amount": 5})
        await ada.call("enter_space", {"spaceId": "office"})
        assert (await runtime.approve(pending.call_id)).data == {"paid": 5}

        assert await shown(runtime, "launch") == [("pay", "complete")]
        assert await shown(runtime, "office") == []


async def test_a_call_answered_by_another_process_ends_in_the_space_where_it_was_posted(tmp_path):
    path = str(tmp_path / "store.db")
    async with Runtime(pay, spaces(), store=path) as runtime:
        await runtime.store.spaces.create("launch")
        await runtime.store.spaces.join("launch", "ada", "agent")
        ada = runtime.scope(agent="ada", session="s1")
        await ada.call("enter_space", {"spaceId": "launch"})
        pending = await ada.call("pay", {"amount": 5})
    async with Runtime(pay, spaces(), store=path) as runtime:
        assert (await runtime.approve(pending.call_id)).ok

        [message] = await runtime.store.spaces.history("launch")
        assert (message.content["status"], message.content["data"]) == ("complete", {"paid": 5})


async def test_space_messages_keep_the_structured_result():
    async with office() as runtime:
        await runtime.scope(space="launch").call("weather", {"city": "Rome"})

        [message] = await runtime.store.spaces.history("launch")
        assert message.content["args"] == {"city": "Rome"}
        assert message.content["data"] == {"city": "Rome", "degrees": 21}
        assert message.content["result"] == '{"city":"Rome","degrees":21}'


async def test_a_space_message_leaves_out_a_structured_result_beyond_the_limit():
    async with office(defaults={"max_output": 20}) as runtime:
        await runtime.scope(space="launch").call("weather", {"city": "Rome" * 10})

        [message] = await runtime.store.spaces.history("launch")
        assert message.content["data"] is None
        assert "tool_output" in message.content["result"]


async def test_a_scope_with_a_space_warns_once_where_the_runtime_has_no_store(caplog):
    async with Runtime(weather) as runtime:
        with caplog.at_level(logging.WARNING, "surehand"):
            runtime.scope(space="launch")
            assert (await runtime.scope(space="launch").call("weather", {"city": "Rome"})).ok

    assert caplog.text.count("Visible calls in space 'launch' are shown nowhere: the runtime has no store.") == 1


async def test_without_an_active_space_and_on_no_space_error_the_handler_does_not_run():
    async with office(on_no_space="error") as runtime:
        ada = runtime.scope(agent="ada", session="s1")
        refused = await ada.call("weather", {"city": "Rome"})
        hidden = await ada.call("where")
        await ada.call("enter_space", {"spaceId": "launch"})
        entered = await ada.call("weather", {"city": "Bern"})

    assert (refused.code, refused.executed) == ("failed", False)
    assert refused.message == (
        "No active space. Call enter_space first. weather shows its result in a space, and did not run."
    )
    assert hidden.ok
    assert entered.ok
    assert ran == ["Bern"]


async def test_on_no_space_error_holds_without_a_store_and_names_the_remedy():
    ran.clear()
    async with Runtime(weather, on_no_space="error") as runtime:
        refused = await runtime.call("weather", {"city": "Rome"})

    assert refused.code == "failed"
    assert "scope(space=...)" in refused.message
    assert ran == []


def test_an_unknown_value_of_on_no_space_is_refused():
    with pytest.raises(ValueError, match="must be 'warn' or 'error', got 'stop'"):
        Runtime(on_no_space="stop")
