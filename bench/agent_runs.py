"""Benchmark of agents: one model turn with one tool call, against the same loop by hand and against its SQL alone."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.agent_limit import agent_limit
from bench.durable_calls import Write, open_raw_sqlite
from bench.measure import measure_ratio
from bench.table import Row
from surehand import Agent, Call, Runtime, Store, tool
from surehand.agent.models.base import ModelAnswer, ModelRequest
from surehand.core.ids import new_id
from surehand.store.database import Statement
from surehand.store.sqlite.dialect import number_parameters
from surehand.testing import ScriptedModel

SQLITE_RUNS = 16
"""Runs at the same time, whose writes the store commits together."""
LIMIT_RUNS_PER_RUN = 20
"""Runs of the bare loop for each of ours: so few of its own would end before the caches are warm."""
REPLIES: tuple[Any, ...] = ([("add", {"a": 1, "b": 2})], "3")


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def measure_agents(*, rounds: int = 15, count: int = 200) -> list[Row]:
    """Measure without a store, and on SQLite with full sync."""
    with tempfile.TemporaryDirectory(prefix="surehand-bench-") as folder:
        return [
            *await _measure_without_store(rounds, count),
            await _measure_sqlite(Path(folder), rounds, max(count // 4, SQLITE_RUNS)),
        ]


async def _measure_without_store(rounds: int, count: int) -> list[Row]:
    async with Runtime(add) as runtime:

        async def run_agent() -> float:
            agent = await _start_agent(runtime, count)
            started_at = perf_counter()
            await _run_agent(agent, runtime, count)
            return perf_counter() - started_at

        async def run_by_hand() -> float:
            model = ScriptedModel(*REPLIES * count)
            started_at = perf_counter()
            for _ in range(count):
                await _run_by_hand(runtime, model)
            return perf_counter() - started_at

        ratio = await measure_ratio(run_agent, run_by_hand, rounds=rounds)
        bare_loop = agent_limit(count=count * LIMIT_RUNS_PER_RUN)
        bare_ratio = await measure_ratio(run_agent, bare_loop, rounds=rounds) * LIMIT_RUNS_PER_RUN
    title = "an agent's turn with one call, scripted model"
    return [
        Row(f"{title} / the same loop by hand on a runtime", ratio, 2.0),
        Row(f"{title} / the same loop by hand without any library", bare_ratio, note="for information"),
    ]


async def _start_agent(runtime: Runtime, count: int) -> Agent:
    """An agent that is used for many runs, as in a program. Its first run, before the measured ones, prepares it."""
    agent = Agent(f"a{new_id()}", model=ScriptedModel(*REPLIES * (count + 1)))
    await _run_agent(agent, runtime, 1)
    return agent


async def _run_agent(agent: Agent, runtime: Runtime, count: int) -> None:
    for _ in range(count):
        run = await agent.run("Add 1 and 2", runtime=runtime)
        assert run.text == "3"


async def _run_by_hand(runtime: Runtime, model: ScriptedModel) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Add 1 and 2"}]
    while True:
        answer = await _ask(model, ModelRequest(messages, runtime.describe("openai")))
        if not answer.calls:
            return answer.text
        calls = [Call(call.name, call.arguments, model_id=call.model_id) for call in answer.calls]
        functions = [{"name": call.name, "arguments": call.arguments} for call in answer.calls]
        tool_calls = [
            {"id": call.model_id, "type": "function", "function": each}
            for call, each in zip(calls, functions, strict=True)
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": tool_calls})
        for call, outcome in zip(calls, await runtime.call_many(calls), strict=True):
            messages.append({"role": "tool", "tool_call_id": call.model_id, "content": outcome.text})


async def _ask(model: ScriptedModel, request: ModelRequest) -> ModelAnswer:
    async for chunk in model.stream(request):
        if isinstance(chunk, ModelAnswer):
            return chunk
    raise AssertionError("a scripted model always ends with its answer")


async def _measure_sqlite(folder: Path, rounds: int, count: int) -> Row:
    run_id, writes = await _capture_run_writes(str(folder / "shape.db"))
    raw = await open_raw_sqlite(folder / "raw.db")
    try:
        async with Runtime(add, store=str(folder / "ours.db")) as runtime:

            async def run_statements() -> float:
                started_at = perf_counter()
                for _ in range(count // SQLITE_RUNS):
                    _execute_writes(raw, writes, run_id, [new_id() for _ in range(SQLITE_RUNS)])
                return perf_counter() - started_at

            async def run_agent() -> float:
                each = count // SQLITE_RUNS
                agents = [await _start_agent(runtime, each) for _ in range(SQLITE_RUNS)]
                started_at = perf_counter()
                await asyncio.gather(*(_run_agent(agent, runtime, each) for agent in agents))
                return perf_counter() - started_at

            ratio = await measure_ratio(run_statements, run_agent, rounds=rounds)
    finally:
        raw.close()
    title = f"agent runs per second, SQLite with full sync, {SQLITE_RUNS} at a time / their statements raw"
    return Row(f"{title}, in the same commits", ratio, 0.5, at_least=True)


async def _capture_run_writes(address: str) -> tuple[str, list[Write]]:
    """The writes of one run with one call, captured as they reach the database."""
    async with Store.open(address) as store:
        writes: list[Write] = []
        write = store.database.write

        async def capture_write(statements: Sequence[Statement]) -> Any:
            writes.append([(step.sql, dict(step.params)) for step in statements])
            return await write(statements)

        async with Runtime(add, store=store) as runtime:
            agent = Agent("a", model=ScriptedModel(*REPLIES * 2))
            await agent.run("Add 1 and 2", runtime=runtime)  # a new runtime also writes for itself at first
            store.database.write = capture_write  # type: ignore[method-assign]
            run = await agent.run("Add 1 and 2", runtime=runtime)
            store.database.write = write  # type: ignore[method-assign]
    return run.id, [each for each in writes if run.id in str(each)]


def _execute_writes(
    connection: sqlite3.Connection, writes: Sequence[Write], old_id: str, run_ids: Sequence[str]
) -> None:
    for write in writes:
        connection.execute("BEGIN IMMEDIATE")
        for run_id in run_ids:
            _execute_write(connection, write, old_id, run_id)
        connection.execute("COMMIT")


def _execute_write(connection: sqlite3.Connection, write: Write, old_id: str, run_id: str) -> None:
    for sql, params in write:
        text, values = number_parameters(sql)
        own = {
            name: value.replace(old_id, run_id) if isinstance(value, str) else value for name, value in params.items()
        }
        connection.execute(text, values(own)).fetchall()
