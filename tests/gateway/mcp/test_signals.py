"""SIGTERM and SIGINT end servers in order, and handlers of the program are restored afterwards."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from surehand import tool
from surehand.gateway.mcp.signals import STOP_SIGNALS, on_stop_signals
from tests.gateway.mcp.http_peer import call_request, http_site
from tests.gateway.mcp.sdk_clients import within

signals = pytest.mark.parametrize("number", STOP_SIGNALS)


@tool(effects={"read"})
async def look() -> str:
    """Look."""
    return "looked"


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@contextmanager
def handled(number: int) -> Iterator[asyncio.Event]:
    """A handler that the program itself has put on its loop; when it was called."""
    loop, called = asyncio.get_running_loop(), asyncio.Event()
    before = signal.getsignal(number)
    loop.add_signal_handler(number, called.set)
    try:
        yield called
    finally:
        loop.remove_signal_handler(number)
        signal.signal(number, before)


@signals
async def test_all_that_is_served_ends_at_the_first_signal(number):
    async with http_site(look) as one, http_site(look) as other, within():
        assert (await one.ask(call_request("look"))).status == (await other.ask(call_request("look"))).status == 200

        send(number)
        await asyncio.gather(one.task, other.task)


@signals
async def test_the_handler_of_a_program_is_still_there_once_it_has_served(number):
    with handled(number) as called:
        async with http_site(look) as site, within():
            send(number)
            await asyncio.gather(site.task, called.wait())

        called.clear()
        send(number)
        async with within():
            await called.wait()


@signals
async def test_the_handler_of_a_program_is_still_there_when_no_signal_came(number):
    with handled(number) as called:
        async with http_site(look):
            pass

        send(number)
        async with within():
            await called.wait()


@signals
@pytest.mark.parametrize("first_to_end", [0, 1])
async def test_servers_may_end_in_any_order(number, first_to_end):
    before, stopped = signal.getsignal(number), [asyncio.Event(), asyncio.Event()]
    open_ones = [ExitStack(), ExitStack()]
    for each, event in zip(open_ones, stopped, strict=True):
        each.enter_context(on_stop_signals(event.set))
    open_ones.pop(first_to_end).close()

    send(number)
    async with within():
        await stopped[1 - first_to_end].wait()

    assert not stopped[first_to_end].is_set()
    assert signal.getsignal(number) is before
    open_ones.pop().close()


async def test_the_second_signal_does_what_it_always_did():
    heard: list[Any] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        stopped = asyncio.Event()
        with on_stop_signals(stopped.set):
            send(signal.SIGTERM)
            async with within():
                await stopped.wait()
            assert heard == []
            send(signal.SIGTERM)
            assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_in_another_thread_no_signals_are_taken():
    before = [signal.getsignal(each) for each in STOP_SIGNALS]

    async def serve() -> list[Any]:
        with on_stop_signals(lambda: None):
            return [signal.getsignal(each) for each in STOP_SIGNALS]

    assert await asyncio.to_thread(asyncio.run, serve()) == before
