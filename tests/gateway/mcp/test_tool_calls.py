"""Calling tools over MCP."""

import asyncio

import pytest
from mcp import Client, MCPError

from surehand import Context, Runtime, gateway, tool
from tests.gateway.mcp.sdk_clients import ERAS, HANDSHAKE, MODERN, http_client, http_server, sdk_client, within

eras = pytest.mark.parametrize("era", ERAS)


@tool(effects={"read"})
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(effects={"read"})
async def whoami(ctx: Context) -> dict:
    """Who calls."""
    return {"user": ctx.user, "session": ctx.session}


class Slow:
    """A tool that goes on until it is stopped, and what became of its calls."""

    def __init__(self) -> None:
        self.began, self.stopped = asyncio.Event(), asyncio.Event()

        @tool(effects={"read"}, timeout="off")
        async def slow() -> str:
            """Take for ever."""
            self.began.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped.set()
            return "never"

        self.tool = slow


@eras
async def test_arguments_go_in_and_a_value_comes_out(era):
    async with sdk_client(Runtime(add), era) as client:
        result = await client.call_tool("add", {"a": 2, "b": 3})

    assert result.structured_content == {"result": 5}


@eras
async def test_a_tool_without_arguments_needs_none(era):
    async with sdk_client(Runtime(whoami), era) as client:
        assert not (await client.call_tool("whoami")).is_error


@eras
async def test_an_unknown_tool_is_an_error_that_names_the_nearest(era):
    async with sdk_client(Runtime(add), era) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("ad", {"a": 1})

    assert (refused.value.code, refused.value.message) == (-32602, "Unknown tool: ad. Did you mean add?")


@eras
async def test_an_overlong_tool_name_is_refused_and_shortened_in_the_error(era):
    async with sdk_client(Runtime(add), era) as client:
        for name in ("", "x" * 100_000, "../add", "add\n"):
            with pytest.raises(MCPError) as refused:
                await client.call_tool(name)
            assert refused.value.code == -32602
            assert len(refused.value.message) < 200


@eras
@pytest.mark.parametrize("arguments", [{}, {"a": "x"}, {"a": 1, "c": 2}, {"a": [1]}, {"a": None}])
async def test_invalid_arguments_are_an_error_result(era, arguments):
    async with sdk_client(Runtime(add), era) as client:
        result = await client.call_tool("add", arguments)

    assert result.is_error
    assert result.meta["surehand/code"] == "invalid_arguments"


@eras
async def test_a_timeout_is_an_error_result(era):
    @tool(timeout=0.05)
    async def late() -> str:
        """Be late."""
        await asyncio.sleep(10)
        return ""

    async with within(), sdk_client(Runtime(late), era) as client:
        result = await client.call_tool("late")

    assert result.is_error
    assert result.meta["surehand/code"] == "timed_out"


@eras
async def test_calls_run_beside_each_other(era):
    together = asyncio.Barrier(50)

    @tool(effects={"read"})
    async def meet(number: int) -> int:
        """Wait for the others."""
        await together.wait()
        return number

    async with within(), sdk_client(Runtime(meet), era) as client:
        results = await asyncio.gather(*(client.call_tool("meet", {"number": n}) for n in range(50)))

    assert [each.structured_content["result"] for each in results] == list(range(50))


@eras
async def test_a_client_that_cancels_stops_the_handler(era):
    slow = Slow()
    async with within(), sdk_client(Runtime(slow.tool), era) as client:
        call = asyncio.create_task(client.call_tool("slow"))
        await slow.began.wait()
        call.cancel()
        await slow.stopped.wait()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_client_in_the_same_process_that_cancels_stops_the_handler():
    slow = Slow()
    async with within(), Client(gateway.mcp.server(Runtime(slow.tool)), mode=MODERN) as client:
        call = asyncio.create_task(client.call_tool("slow"))
        await slow.began.wait()
        call.cancel()
        await slow.stopped.wait()
        await asyncio.wait({call})


@eras
async def test_a_client_timeout_cancels_the_handler(era):
    slow = Slow()
    async with within(), sdk_client(Runtime(slow.tool), era) as client:
        while not slow.began.is_set():  # a client may be out of patience before anything has begun
            with pytest.raises(MCPError) as late:
                await client.call_tool("slow", read_timeout_seconds=0.1)
        await slow.stopped.wait()

    assert late.value.code == -32001


@eras
async def test_a_client_that_leaves_in_the_middle_stops_its_calls(era):
    slow = Slow()
    async with Runtime(slow.tool) as runtime, within():
        async with sdk_client(runtime, era) as client:
            call = asyncio.create_task(client.call_tool("slow"))
            await slow.began.wait()
        await slow.stopped.wait()
        with pytest.raises((MCPError, asyncio.CancelledError)):
            await call
        assert not runtime.running_calls()


@eras
async def test_a_runtime_that_closes_in_the_middle_ends_the_call_with_a_result(era):
    slow = Slow()
    runtime = Runtime(slow.tool)
    async with within():
        await runtime.__aenter__()
        async with sdk_client(runtime, era) as client:
            call = asyncio.create_task(client.call_tool("slow"))
            await slow.began.wait()
            await runtime.close()
            result = await call

    assert result.is_error
    assert result.meta["surehand/code"] == "cancelled"


@eras
async def test_a_runtime_is_started_for_the_first_client_and_closed_after_the_last(era):
    runtime = Runtime(add)
    server = gateway.mcp.server(runtime)
    async with sdk_client(server, era) as first:
        async with sdk_client(server, era) as second:
            assert runtime.is_open
            await second.call_tool("add", {"a": 1})
        assert (await first.call_tool("add", {"a": 1})).structured_content == {"result": 2}
    assert not runtime.is_open

    async with sdk_client(server, era) as again:
        assert (await again.call_tool("add", {"a": 2})).structured_content == {"result": 3}


async def test_a_client_that_leaves_first_leaves_the_runtime_to_the_other():
    runtime = Runtime(add)
    server = gateway.mcp.server(runtime)
    first, second = sdk_client(server, HANDSHAKE), sdk_client(server, MODERN)
    opened, may_leave, left = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stay_for_a_while() -> None:
        async with first:
            opened.set()
            await may_leave.wait()
        left.set()

    async with within(), asyncio.TaskGroup() as tasks:
        tasks.create_task(stay_for_a_while())
        await opened.wait()
        async with second:
            may_leave.set()
            await left.wait()
            assert (await second.call_tool("add", {"a": 1})).structured_content == {"result": 2}

    assert not runtime.is_open


@eras
async def test_a_running_runtime_is_left_running(era):
    async with Runtime(add) as runtime:
        async with sdk_client(runtime, era) as client:
            await client.call_tool("add", {"a": 1})
        assert runtime.is_open


@eras
async def test_calls_have_the_user_of_the_option(era):
    async with sdk_client(Runtime(whoami), era, user="ada") as client:
        result = await client.call_tool("whoami")

    assert result.structured_content == {"user": "ada", "session": None}


@eras
async def test_without_a_user_calls_are_anonymous(era):
    async with sdk_client(Runtime(whoami), era) as client:
        assert (await client.call_tool("whoami")).structured_content == {"user": None, "session": None}


@eras
async def test_metadata_of_a_request_does_not_change_its_user(era):
    async with sdk_client(Runtime(whoami), era, user="ada") as client:
        result = await client.call_tool("whoami", meta={"user": "bob", "surehand/user": "bob"})

    assert result.structured_content["user"] == "ada"


@eras
async def test_calls_are_counted_like_any_other(era):
    async with Runtime(add) as runtime, sdk_client(runtime, era) as client:
        await client.call_tool("add", {"a": 1})
        await client.call_tool("add", {"a": "x"})

        assert (runtime.stats().calls["add"].count, runtime.stats().calls["add"].failures) == (2, 1)


# Over a real transport


@eras
async def test_over_http_a_client_that_cancels_stops_the_handler(era):
    slow = Slow()
    async with within(), http_server(Runtime(slow.tool)) as url, http_client(url, era) as client:
        call = asyncio.create_task(client.call_tool("slow"))
        await slow.began.wait()
        call.cancel()
        await slow.stopped.wait()
        await asyncio.wait({call})


@eras
async def test_over_http_each_call_is_made_for_the_user_of_its_token(era):
    users = {"a-token": "ada", "b-token": "bob"}
    async with (
        within(),
        http_server(Runtime(whoami), token=users.get, user="nobody") as url,
        http_client(url, era, "a-token") as ada,
        http_client(url, era, "b-token") as bob,
    ):
        found = [(await each.call_tool("whoami")).structured_content["user"] for each in (ada, bob, ada)]

    assert found == ["ada", "bob", "ada"]


@eras
async def test_over_http_calls_run_beside_each_other(era):
    together = asyncio.Barrier(10)

    @tool(effects={"read"})
    async def meet(number: int) -> int:
        """Wait for the others."""
        await together.wait()
        return number

    async with within(), http_server(Runtime(meet)) as url, http_client(url, era) as client:
        results = await asyncio.gather(*(client.call_tool("meet", {"number": n}) for n in range(10)))

    assert [each.structured_content["result"] for each in results] == list(range(10))
