"""The practical limit of a run of an agent with one call: the same loop by hand, with no library but pydantic-core.

The replies of the model are prepared, as in all benchmarks of agents: what is measured is what surrounds them.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from pydantic import TypeAdapter

from bench.call_limit import ADD_ARGUMENTS, Addends, add
from bench.measure import TimedRound

PROMPT = "Add 1 and 2"
FINAL_TEXT = "3"
_parse_arguments = TypeAdapter(Addends).validator.validate_json


def count_results(messages: list[dict[str, Any]]) -> int:
    """How many results of calls a conversation has: the scripted models answer by this."""
    return sum(message["role"] == "tool" for message in messages)


async def run_by_hand() -> str:
    """Ask the scripted model, make its call, and ask it again."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": PROMPT}]
    while not count_results(messages):
        function = {"name": "add", "arguments": ADD_ARGUMENTS}
        call = {"id": "call_1", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        result = await add(**_parse_arguments(function["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})
    return FINAL_TEXT


def agent_limit(*, count: int) -> TimedRound:
    """Time `count` runs by hand."""

    async def run_round() -> float:
        started_at = perf_counter()
        for _ in range(count):
            await run_by_hand()
        return perf_counter() - started_at

    return run_round
