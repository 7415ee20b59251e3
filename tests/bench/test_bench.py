"""The benchmarks run. The tests do not check the numbers, because a busy machine must not fail a test."""

from pathlib import Path

import pytest

from bench.__main__ import BENCHMARKS, select_benchmarks
from bench.agent_runs import measure_agents
from bench.calls import measure_calls
from bench.durable_calls import measure_durable_calls
from bench.file_tools import measure_files
from bench.imports import measure_imports, required_distributions
from bench.measure import measure_ratio
from bench.peers.environments import AGENT_PEERS, OPENAPI_PEERS, PEERS, ROOT, script_name
from bench.queued_calls import measure_queue
from bench.sandbox import measure_sandbox
from bench.search_tools import measure_search
from bench.table import Row, format_table, write_results
from bench.tool_definitions import measure_definitions
from tests.requirements import needs

pytestmark = pytest.mark.timeout(80)  # some of these have much to do, and a busy machine takes its time


async def test_every_subject_gives_rows_with_positive_numbers():
    rows = [
        *await measure_calls(rounds=1, count=2),
        *await measure_queue(rounds=1, count=5),
        *await measure_durable_calls(rounds=1, count=64, waiting=10, postgres=False),
        *await measure_definitions(rounds=1, count=3),
    ]

    assert len(rows) == 15
    assert all(row.measured is not None and row.measured > 0 for row in rows)


async def test_agents_are_measured():
    rows = await measure_agents(rounds=1, count=16)

    assert len(rows) == 3
    assert all(row.measured is not None and row.measured > 0 for row in rows)


async def test_files_are_measured():
    rows = await measure_files(rounds=1, megabytes=1, count=1)

    assert all(row.measured is not None and row.measured > 0 for row in rows)


@needs("bubblewrap")
async def test_what_runs_in_a_sandbox_is_measured():
    rows = [*await measure_search(rounds=1, count=501), *await measure_sandbox(rounds=1, count=1)]

    assert all(row.measured is not None and row.measured > 0 for row in rows)


async def test_imports_are_measured_in_processes_of_their_own():
    took, brought = await measure_imports(rounds=1)

    assert took.measured is not None
    assert took.measured > 0
    assert brought.measured == 2


async def test_a_ratio_is_the_median_of_pairs():
    ours, limit = iter([9.0, 2.0, 3.0, 40.0]), iter([9.0, 1.0, 1.0, 1.0])

    async def next_of_ours() -> float:
        return next(ours)

    async def next_of_limit() -> float:
        return next(limit)

    assert await measure_ratio(next_of_ours, next_of_limit, rounds=3) == 3.0


def test_a_goal_is_met_by_the_number_that_is_shown():
    assert Row("calls", 1.254, 1.25).cells() == ("calls", "<= 1.25x", "1.25x", "yes")
    assert Row("calls", 1.256, 1.25).met == "no"
    assert Row("distributions", 2, 4, unit="").cells() == ("distributions", "<= 4", "2", "yes")


def test_a_goal_may_be_to_reach_so_much():
    assert Row("calls", 0.496, 0.5, at_least=True).cells() == ("calls", ">= 0.5x", "0.496x", "no")
    assert Row("calls", 0.51, 0.5, at_least=True).met == "yes"


def test_what_cannot_be_measured_says_why():
    assert Row("a peer", None, note="does not install").cells() == ("a peer", "", "not measured", "does not install")


def test_the_peers_of_an_earlier_run_stay(tmp_path: Path):
    results = tmp_path / "RESULTS.md"
    peer = Row("a peer", 100.0, note="for information")

    write_results([Row("calls", 4.5, 5)], [peer], path=results)
    write_results([Row("calls", 3.5, 5)], [], path=results)

    assert "3.5x" in results.read_text()
    assert "4.5x" not in results.read_text()
    assert format_table([peer]) in results.read_text()


def test_distributions_are_counted_without_extras():
    assert "pydantic-core" in required_distributions("pydantic")
    assert "email-validator" not in required_distributions("pydantic")


def test_every_peer_has_a_script_and_every_script_says_which_path_it_takes():
    scripts = [
        *map(script_name, PEERS),
        *(f"{script_name(name)}_agent" for name in AGENT_PEERS),
        *(f"{script_name(name)}_openapi" for name in OPENAPI_PEERS),
    ]
    for name in scripts:
        script = ROOT / "bench" / "peers" / f"{name}.py"
        assert script.read_text().startswith('"""')


def test_words_choose_the_benchmarks_of_a_run():
    assert [benchmark.name for benchmark in select_benchmarks("mcp")] == ["mcp calls", "mcp connections", "mcp proxy"]
    assert select_benchmarks("") == list(BENCHMARKS)
    assert select_benchmarks("no such words") == []
