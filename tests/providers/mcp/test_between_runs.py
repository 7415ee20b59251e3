"""Definitions that change between two runs of a program, and tools that a server gains."""

from __future__ import annotations

from pathlib import Path

import pytest

from surehand import Done, Pending, Policy, Runtime
from tests.providers.mcp.steady_server import SteadyServer, tool_definition, wait_until
from tests.providers.mcp.test_caching import effect


async def test_without_a_lock_file_a_definition_that_changed_between_runs_is_taken_and_logged(
    server: SteadyServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = str(tmp_path / "kept")
    server.set_tools(effect())
    async with Runtime(server.provider(manifest=kept)):
        pass
    server.set_tools({**effect(), "description": "Leave another trace."})

    async with Runtime(server.provider(manifest=kept)) as runtime:
        assert await runtime.call("steady__effect", {"text": "x"}) == Done("done")
        assert runtime.catalogue.find("steady__effect").tool.description == "[steady] Leave another trace."

    assert (
        "Changed since the last run, and taken, because there is no lock file: steady/effect: description changed."
        in caplog.text
    )
    assert "lock diff" not in caplog.text


async def test_with_a_lock_file_a_definition_that_changed_between_runs_is_held_back(
    server: SteadyServer, tmp_path: Path
) -> None:
    kept, lock = str(tmp_path / "kept"), tmp_path / "surehand.lock"
    server.set_tools(effect())
    async with Runtime(server.provider(manifest=kept, lock=lock)):
        pass
    server.set_tools({**effect(), "description": "Leave another trace."})

    async with Runtime(server.provider(manifest=kept, lock=lock, required=True)) as runtime:
        outcome = await runtime.call("steady__effect", {"text": "x"})

    assert outcome.code == "denied"
    assert "surehand lock diff" in outcome.message


async def test_nothing_points_to_lock_diff_where_there_is_no_lock(
    server: SteadyServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.set_tools(effect())
    async with Runtime(server.provider()) as runtime:
        server.set_tools({**effect(), "description": "Leave another trace."})
        await runtime.refresh("steady")
        outcome = await runtime.call("steady__effect", {"text": "x"})
        said = f"{outcome.text} {runtime.instructions()} {caplog.text}"

    assert outcome.code == "denied"
    assert "Start the program again" in outcome.message
    assert "lock diff" not in said


async def test_calling_a_tool_that_a_known_server_has_gained_asks_the_server_first(steady: SteadyServer) -> None:
    steady.set_tools(tool_definition("look"))
    async with Runtime(steady.provider()) as runtime:
        steady.set_tools(tool_definition("look"), effect())  # the server does not say so

        assert await runtime.call("steady__effect", {"text": "x"}) == Done("done")


async def test_a_server_whose_tools_are_cached_is_started_and_asked_before_a_tool_is_unknown(
    server: SteadyServer, tmp_path: Path
) -> None:
    kept = str(tmp_path / "kept")
    server.set_tools(tool_definition("look"))
    async with Runtime(server.provider(manifest=kept)):
        pass
    server.set_tools(tool_definition("look"), effect())

    async with Runtime(server.provider(manifest=kept)) as runtime:
        assert server.starts == 1
        assert await runtime.call("steady__effect", {"text": "x"}) == Done("done")


async def test_a_tool_that_the_server_does_not_have_is_unknown_after_it_was_asked(server: SteadyServer) -> None:
    async with Runtime(server.provider()) as runtime:
        lists = len(server.lines("lists"))
        outcome = await runtime.call("steady__nothing")

    assert outcome.code == "not_found"
    assert "Unknown tool: 'steady__nothing'" in outcome.message
    assert len(server.lines("lists")) > lists


async def test_no_server_is_asked_for_a_tool_of_another_namespace(server: SteadyServer) -> None:
    async with Runtime(server.provider()) as runtime:
        lists = len(server.lines("lists"))
        assert (await runtime.call("elsewhere__nothing")).code == "not_found"
        assert (await runtime.call("nothing")).code == "not_found"

        assert len(server.lines("lists")) == lists


async def test_a_call_is_not_sent_to_a_tool_that_has_ceased_to_be_read_only_since_the_last_run(
    server: SteadyServer, tmp_path: Path
) -> None:
    kept = str(tmp_path / "kept")
    server.set_tools(effect(annotations={"readOnlyHint": True}))
    async with Runtime(server.provider(manifest=kept)):
        pass
    server.set_tools(effect())

    async with Runtime(server.provider(manifest=kept), policy=Policy.default()) as runtime:
        outcome = await runtime.call("steady__effect", {"text": "x"})
        assert (outcome.code, outcome.executed) == ("conflict", False)
        assert "may now do more than when it was listed (write)" in outcome.message
        await wait_until(lambda: runtime.catalogue.find("steady__effect").policy_effects == {"write"})
        assert isinstance(await runtime.call("steady__effect", {"text": "x"}), Pending)
    assert server.effects == []
