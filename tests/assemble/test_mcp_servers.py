"""MCP servers of a configuration file become tools that can be called."""

import sys
from pathlib import Path

import mcp  # noqa: F401 - it takes a second, which no test should have to wait
import pytest

from surehand.assemble import assemble
from surehand.config.config import read_config
from surehand.core.tool_options import ToolOptions

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
  one: {{command: "{python}", args: ["{server}", "${{WORD}}"], env: {{TOKEN: "${{TOKEN}}"}}, effects: [read]}}
  two: {{command: "{python}", args: ["{server}"], env: {{TOKEN: "${{ABSENT}}"}}}}
policy:
  - {{decision: allow}}
"""


async def test_configured_servers_provide_tools_and_a_broken_one_provides_none(config, caplog, tmp_path):
    environment = {"WORD": "tea", "TOKEN": "hunter2"}

    async with assemble(config(ONE), environment=environment) as runtime:
        outcome = await runtime.call("one__told", {"names": ["TOKEN"]})
        names = [listing.name for listing in runtime.catalogue]

    assert outcome.data == {"result": ["hunter2", "tea"]}
    assert [name for name in names if "__" in name] == ["one__told"]
    assert "the environment variable ABSENT is not set" in caplog.text
    assert "hunter2" not in caplog.text
    assert (tmp_path / "surehand.lock").exists()


DECLARED = """\
tools:
  - name: told
    mcpConfig: {{serverName: one, transport: stdio, command: "{python}", args: ["{server}", tea], effects: [read]}}
policy:
  - {{decision: allow}}
"""


@pytest.mark.skipif("mcp_config" not in ToolOptions.__annotations__, reason="NOT RUN: tools have no mcp_config yet")
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
