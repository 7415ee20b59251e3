"""Deferred results for clients that support neither elicitation nor tasks."""

import json
from typing import Any

import pytest
from mcp import MCPError

from surehand import Pending, Runtime, ToolError, gateway, tool
from surehand.core.errors import DefinitionError
from tests.gateway.mcp.raw_client import TASKS, raw_client, text_of
from tests.gateway.mcp.sdk_clients import ERAS, http_client, http_server, sdk_client

eras = pytest.mark.parametrize("era", ERAS)


@tool(effects={"write"}, confirm=True, confirm_message="Pay?", toolsets=("shop",))
async def pay(amount: int) -> dict[str, int]:
    """Pay somebody."""
    if amount > 100:
        raise ToolError("There is not so much.")
    return {"paid": amount}


async def names(client: Any) -> list[str]:
    return [each.name for each in (await client.list_tools()).tools]


async def waiting(client: Any, amount: int = 5) -> dict[str, Any]:
    """What a model is told of a call that waits."""
    return json.loads((await client.call_tool("pay", {"amount": amount})).content[0].text)


async def result_of(client: Any, call_id: str) -> Any:
    return await client.call_tool("call_result", {"call_id": call_id})


@eras
async def test_the_result_is_fetched_after_the_answer(era):
    async with Runtime(pay) as runtime, sdk_client(runtime, era) as client:
        before = await names(client)
        told = await waiting(client)
        call_id = told["pendingToolCallId"]
        early = await result_of(client, call_id)
        await runtime.approve(call_id)
        late = await result_of(client, call_id)

        assert (before, await names(client)) == (["pay"], ["pay", "call_result"])
    assert f"call_result(call_id='{call_id}')" in told["next"]
    assert early.structured_content["status"] == "pending"
    assert (early.structured_content["message"], early.is_error) == ("Pay?", False)
    assert (late.structured_content, late.is_error) == ({"paid": 5}, False)


@eras
async def test_the_failure_of_a_call_is_fetched_as_it_is(era):
    async with Runtime(pay) as runtime, sdk_client(runtime, era) as client:
        dear, rejected = [(await waiting(client, 500))["pendingToolCallId"] for _ in range(2)]
        await runtime.approve(dear)
        await runtime.reject(rejected, "no money")
        failed, refused = await result_of(client, dear), await result_of(client, rejected)

    assert (failed.is_error, failed.content[0].text) == (True, "There is not so much.")
    assert (refused.is_error, refused.meta["surehand/code"]) == (True, "rejected")
    assert "no money" in refused.content[0].text


async def test_users_ask_for_their_own_calls_alone():
    users = {"a": "ada", "b": "bob"}
    async with Runtime(pay) as runtime, http_server(runtime, token=users.get) as url:
        async with http_client(url, token="a") as ada, http_client(url, token="b") as bob:
            call_id = (await waiting(ada))["pendingToolCallId"]
            others, own = await result_of(bob, call_id), await result_of(ada, call_id)
        async with sdk_client(runtime) as nobody:
            strangers = await result_of(nobody, call_id)

    assert own.structured_content["status"] == "pending"
    for refused in (others, strangers):
        assert (refused.is_error, refused.meta["surehand/code"]) == (True, "not_found")


async def test_a_call_that_never_waited_is_not_found():
    async with Runtime(pay) as runtime, sdk_client(runtime) as client:
        await runtime.call("pay", {"amount": "x"}, call_id="mine")
        await waiting(client)

        assert (await result_of(client, "mine")).meta["surehand/code"] == "not_found"


async def test_without_a_store_the_text_says_that_the_call_waits_only_here(tmp_path):
    async with Runtime(pay) as runtime, sdk_client(runtime) as client:
        here = await waiting(client)
    async with Runtime(pay, store=str(tmp_path / "calls.db")) as runtime, sdk_client(runtime) as client:
        kept = await waiting(client)

    assert here["next"].endswith("It waits only while this server runs.")
    assert "while this server runs" not in kept["next"]


async def test_the_result_of_a_call_from_before_a_restart_is_fetched_after_it(tmp_path):
    store = str(tmp_path / "calls.db")
    async with Runtime(pay, store=store) as runtime, sdk_client(runtime) as client:
        call_id = (await waiting(client))["pendingToolCallId"]
        await runtime.approve(call_id)
    async with Runtime(pay, store=store) as runtime, sdk_client(runtime) as client:
        assert await names(client) == ["pay"]

        assert (await result_of(client, call_id)).structured_content == {"paid": 5}


@eras
async def test_after_a_restart_call_result_is_listed_while_a_call_is_pending(era, tmp_path):
    store = str(tmp_path / "calls.db")
    async with sdk_client(Runtime(pay, store=store), era) as client:
        call_id = (await waiting(client))["pendingToolCallId"]
    async with sdk_client(Runtime(pay, store=store), era) as client:
        assert await names(client) == ["pay", "call_result"]

        assert (await result_of(client, call_id)).structured_content["status"] == "pending"


async def test_without_a_pending_call_call_result_is_not_listed():
    async with sdk_client(Runtime(pay)) as client:
        with pytest.raises(MCPError, match="Unknown tool"):
            await result_of(client, "any")


async def test_call_result_is_served_beside_a_toolset():
    async with Runtime(pay) as runtime, sdk_client(runtime, toolset="shop") as client:
        await waiting(client)

        assert await names(client) == ["pay", "call_result"]


async def test_a_tool_of_the_application_named_call_result_is_kept():
    @tool(effects={"read"})
    async def call_result() -> str:
        """Something else."""
        return "something else"

    async with Runtime(pay, call_result) as runtime, sdk_client(runtime) as client:
        told = await waiting(client)

        assert "call_result" not in told["next"]
        assert (await client.call_tool("call_result")).content[0].text == "something else"


# Whoever runs the server


@pytest.mark.parametrize("capabilities", [{}, {"extensions": {TASKS: {}}}])
async def test_on_wait_is_called_once_for_a_call_that_its_client_cannot_ask_about(capabilities):
    heard: list[tuple[str, Pending]] = []
    async with Runtime(pay) as runtime:
        server = gateway.mcp.server(runtime, on_wait=lambda tool, pending: heard.append((tool, pending)))
        async with raw_client(server, capabilities) as client:
            told = await client.call("pay", {"amount": 5})

    call_id = told.get("taskId") or json.loads(text_of(told))["pendingToolCallId"]
    assert [(tool, pending.call_id, pending.waiting_for) for tool, pending in heard] == [("pay", call_id, "approval")]


async def test_on_wait_is_not_called_for_a_call_that_its_client_asks_about():
    heard: list[str] = []
    async with Runtime(pay) as runtime:
        server = gateway.mcp.server(runtime, on_wait=lambda tool, pending: heard.append(tool))
        async with raw_client(server) as client:
            assert (await client.call("pay", {"amount": 5}))["resultType"] == "input_required"

    assert heard == []


async def test_a_failing_on_wait_function_does_not_fail_the_call(caplog):
    def fails(tool: str, pending: Pending) -> None:
        raise OSError("nobody is there")

    async with sdk_client(gateway.mcp.server(Runtime(pay), on_wait=fails)) as client:
        assert (await waiting(client))["status"] == "pending"

    assert "The on_wait function failed for the pending call of pay" in caplog.text


def test_on_wait_must_be_callable():
    with pytest.raises(DefinitionError, match="on_wait must be callable, got 'x'"):
        gateway.mcp.server(Runtime(pay), on_wait="x")
