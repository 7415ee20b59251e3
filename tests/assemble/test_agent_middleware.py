"""Middleware of an agent of the file wraps the calls of this agent, and of no other."""

import logging

import pytest

from surehand import tool
from surehand.assemble import assemble
from surehand.assemble.agents import build_agents
from surehand.config.config import read_config
from surehand.config.errors import ConfigError

AGENTS = """\
agents:
  clerk:
    model: {{scripted: [{{answers: [{{tool: book}}, {{tool: book}}, "Done."]}}]}}
    middleware: [{middleware}]
  poet:
    model: {{scripted: [{{answers: [{{tool: book}}, "Done."]}}]}}
policy:
  - {{decision: allow}}
"""


@pytest.fixture
def config(tmp_path):
    def config(middleware):
        path = tmp_path / "surehand.yaml"
        path.write_text(AGENTS.format(middleware=middleware))
        return read_config(path)

    return config


@pytest.fixture
def booked():
    return []


async def run_both(config, booked, **facets):
    """Run both agents; returns what their calls came to."""

    @tool(**facets)
    async def book() -> str:
        """Book."""
        booked.append(1)
        return "booked"

    async with assemble(config, book, environment={}) as runtime:
        runs = [await agent.run("Go", runtime=runtime) for agent in build_agents(config, {})]
    assert [run.status for run in runs] == ["done", "done"]
    return [[each["content"] for each in run.messages if each["role"] == "tool"] for run in runs]


async def test_a_dry_run_is_one_for_this_agent_alone(config, booked):
    of_clerk, of_poet = await run_both(config("dry_run"), booked)

    assert of_clerk == ["Dry run: book() was not executed."] * 2
    assert (of_poet, booked) == (["booked"], [1])


async def test_caching_takes_how_long_results_are_kept(config, booked):
    of_clerk, of_poet = await run_both(config("{caching: 5m}"), booked, effects={"read"})

    assert (of_clerk, of_poet) == (["booked"] * 2, ["booked"])
    assert booked == [1, 1]  # the first call of the clerk, and that of the poet


async def test_a_function_of_a_file_may_be_middleware(config, booked, tmp_path):
    (tmp_path / "shout.py").write_text(
        "from surehand import Done\n"
        "async def shout(call, proceed):\n"
        "    return Done((await proceed(call)).text.upper())\n"
    )
    of_clerk, of_poet = await run_both(config("logging, shout.py:shout"), booked)

    assert (of_clerk, of_poet) == (["BOOKED"] * 2, ["booked"])


async def test_the_log_has_the_calls_of_this_agent(config, booked, caplog):
    caplog.set_level(logging.DEBUG, "surehand")
    await run_both(config("logging"), booked)

    assert sum("VRB request" in record.message or "request" in record.message for record in caplog.records) == 2


@pytest.mark.parametrize(
    ("middleware", "message"),
    [
        ("loging", r"surehand.yaml:4: There is no middleware 'loging'. .*did you mean 'logging'"),
        ("gone.py:shout", "surehand.yaml:4"),
        ("{caching: soon}", "surehand.yaml:4"),
        ("{}", "The middleware has no name"),
    ],
)
def test_a_mistake_is_shown_with_its_line(config, middleware, message):
    with pytest.raises(ConfigError, match=message):
        assemble(config(middleware), environment={})
