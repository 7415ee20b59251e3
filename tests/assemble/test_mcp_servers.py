"""MCP servers of a configuration file become tools that can be called."""

import sys
from pathlib import Path

import mcp  # noqa: F401 - it takes a second, which no test should have to wait
import pytest

from surehand import Pending
from surehand.assemble import assemble
from surehand.assemble.agents import build_agents
from surehand.config.config import read_config
from surehand.config.errors import ConfigError

pytestmark = pytest.mark.timeout(60)  # servers take their time to start on a busy machine
SERVER = Path(__file__).parents[1] / "providers/mcp/peers/environment_server.py"


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("SUREHAND_CACHE", str(tmp_path / "cache"))

    def config(text: str):
        path = tmp_path / "surehand.yaml"
        path.write_text(text.format(python=sys.executable, server=SERVER))
        return read_config(path)

    return config


ONE = """\
mcp_servers:
  one: {{command: "{python}", args: ["{server}", "${{WORD}}"], env: {{TOKEN: "${{TOKEN}}", COLOUR: "${{COLOUR}}"}},
         effects: [read]}}
  two: {{command: "{python}", args: ["{server}"], env: {{TOKEN: "${{ABSENT}}"}}}}
policy:
  - {{decision: allow}}
"""


async def test_configured_servers_provide_tools_and_a_broken_one_provides_none(config, caplog, tmp_path):
    environment = {"WORD": "tea", "TOKEN": "hunter2", "COLOUR": "blue"}

    async with assemble(config(ONE), environment=environment) as runtime:
        outcome = await runtime.call("one__told", {"names": ["TOKEN", "COLOUR"]})
        names = [listing.name for listing in runtime.catalogue]

    assert outcome.data == {"result": ["[redacted]", "blue", "tea"]}  # the server was given the token, and repeats it
    assert [name for name in names if "__" in name] == ["one__told"]
    assert "the environment variable ABSENT is not set" in caplog.text
    assert "hunter2" not in caplog.text
    assert (tmp_path / "surehand.lock").exists()


AGENTS = """\
agents:
  clerk:
    model: {{scripted: [{{answers: ["Hi."]}}]}}
    mcp: {{servers: [{{name: one, transport: stdio, command: "{python}", args: ["{server}", tea], effects: [read]}}]}}
  poet: {{model: {{scripted: [{{answers: ["Hi."]}}]}}}}
policy:
  - {{decision: allow}}
"""


async def test_an_agent_of_the_file_may_have_mcp_servers_of_its_own(config):
    settings = config(AGENTS)
    clerk, poet = build_agents(settings, {})
    async with assemble(settings, clerk, poet, environment={}) as runtime:
        of_clerk = await runtime.enter_agent(clerk)
        of_poet = await runtime.enter_agent(poet)
        outcome = await of_clerk.call("one__told", {"names": []})
        refused = await of_poet.call("one__told", {"names": []})

    assert outcome.data == {"result": ["tea"]}
    assert refused.code == "not_found"


def test_a_mistake_in_a_server_of_an_agent_is_shown_with_its_line(config):
    text = "agents:\n  clerk:\n    model: openai:m\n    mcp:\n      one: {{comand: python}}\n"
    with pytest.raises(ConfigError, match=r"surehand.yaml:5"):
        build_agents(config(text), {})


DECLARED = """\
tools:
  - name: told
    mcpConfig: {{serverName: one, transport: stdio, command: "{python}", args: ["{server}", tea], effects: [read]}}
policy:
  - {{decision: allow}}
"""


async def test_a_tool_in_the_file_may_name_the_mcp_server_that_runs_it(config):
    async with assemble(config(DECLARED), environment={}) as runtime:
        outcome = await runtime.call("told", {"names": []})

    assert outcome.data == {"result": ["tea"]}


FILES = """\
workspace: .
builtin: [files]
mcp_servers: {{one: {{command: python, args: [server.py]}}}}
policy:
  - {{decision: allow}}
"""


@pytest.mark.parametrize("name", ["surehand.lock", "server.py", "surehand.yaml"])
async def test_file_tools_cannot_change_server_files_or_the_lock_file(config, tmp_path, name):
    (tmp_path / "server.py").write_text("raise SystemExit\n")

    async with assemble(config(FILES), environment={}) as runtime:
        outcome = await runtime.call("write", {"file_path": name, "content": "mine"})

    assert outcome.code == "denied"


async def test_a_tool_of_a_server_that_is_switched_off_says_so(config):
    text = "mcp_servers:\n  shop: {{command: none, enabled: false}}\n"

    async with assemble(config(text)) as runtime:
        outcome = await runtime.call("shop__buy")

    assert outcome.code == "denied"
    assert outcome.message == "shop__buy is not allowed here: the MCP server shop is switched off in the configuration."


async def test_a_tool_that_a_server_may_not_offer_says_so(config):
    text = """\
mcp_servers:
  one: {{command: "{python}", args: ["{server}"], tools_denied: [told]}}
"""

    async with assemble(config(text), environment={}) as runtime:
        outcome = await runtime.call("one__told")

    assert outcome.code == "denied"
    assert "tools_allowed or tools_denied of the MCP server one leave it out" in outcome.message


@pytest.mark.parametrize(
    ("queue", "fix"),
    [("slow", "add queues: {slow: {concurrent: 2}} to the file."), ("github-queue", "did you mean 'github'?")],
)
def test_a_server_with_another_queue_than_the_file_has_is_a_mistake_with_its_line(config, queue, fix):
    text = "queues: {{github: {{concurrent: 5}}}}\nmcp_servers:\n  git:\n    command: python\n    queue: "

    with pytest.raises(ConfigError) as mistake:
        assemble(config(text + queue), environment={})

    assert f"surehand.yaml:5: There is no queue {queue!r}." in str(mistake.value)
    assert fix in str(mistake.value)


WITHOUT_QUEUES = """\
mcp_servers:
  one: {{command: "{python}", args: ["{server}", tea], effects: [read], queue: github-queue}}
"""


async def test_a_queue_in_a_file_without_queues_is_a_warning_and_the_server_works(config, caplog):
    async with assemble(config(WITHOUT_QUEUES), environment={}) as runtime:
        outcome = await runtime.call("one__told", {"names": []})

    assert outcome.data == {"result": ["tea"]}
    assert "surehand.yaml:2: There is no queue 'github-queue': calls are not limited." in caplog.text


ASKS = """\
mcp_servers:
  one: {{command: "{python}", args: ["{server}", tea], env: {{TOKEN: "${{TOKEN}}"}}, manifest: known}}
policy:
  - {{decision: ask}}
"""


async def test_a_known_server_that_lacks_a_variable_fails_a_call_before_a_person_is_asked(config):
    async with assemble(config(ASKS), environment={"TOKEN": "hunter2"}) as runtime:
        assert isinstance(await runtime.call("one__told", {"names": []}), Pending)

    async with assemble(config(ASKS), environment={}) as runtime:
        outcome = await runtime.call("one__told", {"names": []})

    assert (outcome.code, outcome.executed) == ("unavailable", False)
    assert "the environment variable TOKEN is not set" in outcome.message
