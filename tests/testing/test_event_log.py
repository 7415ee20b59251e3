"""The log of the events of calls."""

from surehand import Context, Done, tool
from surehand.testing import call_log, runtime


@tool
async def add(a: int, b: int, ctx: Context) -> int:
    """Add two numbers."""
    ctx.report(0.5, "half way")
    return a + b


ask = tool.client("ask", "Ask the person.", reply="later")


async def test_the_log_has_ids_names_outcomes_and_progress_in_order() -> None:
    async with runtime(add, ask) as rt:
        log = call_log(rt)
        await rt.call("add", {"a": 1, "b": 2}, call_id="c1")
        await rt.call("ask", call_id="c2")
        await rt.settle("c2", "yes")

    assert log.ids == ["c1", "c2"]
    assert log.tools == ["add", "ask"]
    assert log.outcomes[0] == Done(3)
    assert [outcome.ok for outcome in log.of("a*k").outcomes] == [False, True]
    assert [(each.fraction, each.message) for each in log.progress] == [(0.5, "half way")]


async def test_the_log_can_be_filtered_by_call_and_stopped() -> None:
    async with runtime(add, ask) as rt:
        log = call_log(rt)
        await rt.call("ask", call_id="c1")
        await rt.call("add", {"a": 1, "b": 2})
        await rt.settle("c1", "yes")
        log.stop()
        await rt.call("add", {"a": 1, "b": 2})

    assert log.tools == ["ask", "add"]
    assert log.call("c1").kinds == [
        "CallStarted", "CallPending", "CallEnded", "CallSettled", "CallResumed", "CallEnded",
    ]  # fmt: skip
