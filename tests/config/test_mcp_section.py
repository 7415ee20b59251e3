"""MCP servers in a configuration file."""

import re
from pathlib import Path

import pytest

from surehand.assemble.mcp_servers import build_mcp_servers
from surehand.config.config import read_config
from surehand.config.errors import ConfigError
from surehand.providers.mcp.config.keys import DOCUMENTED_KEYS

YAML = """\
mcp_servers:
  github: {command: npx, args: [-y, "@modelcontextprotocol/server-github"], env: {GITHUB_TOKEN: "${GITHUB_TOKEN}"},
           tools_allowed: [search_code], queue: github, cache: 5m}
queues: {github: {concurrent: 3}}
"""
JSON = """\
{
  // As in another program.
  "mcpServers": {
    "github": {
      "command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"],
      "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"},
      "toolsAllowed": ["search_code"], "queue": "github", "cache": 300000,
    },
  },
  "queues": {"github": {"concurrent": 3}},
}
"""
TOML = """\
[queues.github]
concurrent = 3
[mcp_servers.github]
command = "npx"
args = ["-y", "@modelcontextprotocol/server-github"]
tools_allowed = ["search_code"]
queue = "github"
cache = 300
[mcp_servers.github.env]
GITHUB_TOKEN = "${GITHUB_TOKEN}"
"""


@pytest.fixture
def servers(tmp_path):
    """The servers of a configuration file."""

    def servers(text: str, name: str = "surehand.yaml"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return build_mcp_servers(read_config(path), {})

    return servers


@pytest.fixture
def refused(servers, tmp_path):
    def refused(text: str, name: str = "surehand.yaml") -> str:
        with pytest.raises(ConfigError) as error:
            servers(text, name)
        return str(error.value).replace(f"{tmp_path}/", "")

    return refused


@pytest.mark.parametrize(("text", "name"), [(YAML, "t.yaml"), (JSON, "t.json"), (TOML, "t.toml")])
def test_every_format_has_the_same_meaning(servers, text, name, tmp_path):
    [server] = servers(text, name)

    assert (server.namespace, server.address.label) == ("github", "npx -y @modelcontextprotocol/server-github")
    assert (server.options.allow, server.queue, server.cache) == (("search_code",), "github", 300)
    assert server.options.lock == tmp_path / "surehand.lock"


@pytest.mark.parametrize(
    ("text", "name", "problem"),
    [
        ("mcp_servers:\n  a:\n    command: x\n    tools_alowed: [b]\n", "surehand.yaml",
         "surehand.yaml:4: Unknown key 'tools_alowed'. Fix: did you mean 'tools_allowed'?"),
        ('{\n"mcpServers": {\n"a": {\n"comand": "x"}}}', "surehand.json",
         "surehand.json:4: Unknown key 'comand'. Fix: did you mean 'command'?"),
        ("[mcp_servers.a]\n\nurll = 'x'\n", "surehand.toml",
         "surehand.toml:3: Unknown key 'urll'. Fix: did you mean 'url'?"),
        ("mcp_servers:\n  - {command: x}\n", "surehand.yaml", "surehand.yaml:2: A server in a list needs a name."),
        ("mcp_servers:\n  a: {}\n", "surehand.yaml", "surehand.yaml:2: a has neither a command nor a url."),
        ("mcp_servers:\n  a: {command: x, namespace: two words}\n", "surehand.yaml",
         "surehand.yaml:2: namespace must be a legal name."),
        ("mcp_servers:\n  a: {command: x, cache: hunter2}\n", "surehand.yaml",
         "surehand.yaml:2: cache must be a duration."),
        ("mcp_servers: hunter2\n", "surehand.yaml",
         "surehand.yaml:1: mcp_servers must be a mapping of names to servers."),
        ("mcp_servers:\n  a: {command: x, sandbox: {read: [/hunter2]}}\n", "surehand.yaml",
         "surehand.yaml:2: A sandbox cannot show"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_line(refused, text, name, problem):
    told = refused(text, name)

    assert told.startswith(problem)
    assert "hunter2" not in told or "sandbox" in told


def test_a_file_of_vs_code_can_be_the_configuration(servers, tmp_path):
    text = """{"inputs": [{"id": "region", "default": "eu"}],
    "servers": {"io.github/one": {"type": "stdio", "command": "x", "args": ["${input:region}"]}},
    "sandbox": {"network": {"allowedDomains": ["example.com"]}}, "$schema": "vscode://schemas/mcp"}"""

    [server] = servers(text, ".vscode/mcp.json")

    assert server.namespace == "io_github_one"
    assert server.address.substitute("${workspaceFolder} ${input:region}") == f"{tmp_path.resolve()} eu"


def test_servers_may_be_below_mcp(servers):
    [server] = servers("mcp: {servers: [{name: one, transport: http, url: 'https://host/mcp', allowedTools: [a]}]}\n")

    assert (server.namespace, server.options.allow) == ("one", ("a",))


def test_every_key_is_documented():
    page = (Path(__file__).parents[2] / "docs/reference/config.md").read_text(encoding="utf-8")
    table = page.partition("## MCP servers")[2].partition("\n## ")[0]

    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == sorted(
        DOCUMENTED_KEYS, key=lambda key: table.find(f"\n| `{key}` |")
    )


def test_disabled_servers_are_not_built(servers):
    assert servers("mcp_servers: {a: {command: x, enabled: false}}\n") == []
    assert servers("mcp_servers: {}\n") == []
    assert servers("mcp_servers:\n") == []


def test_the_lock_file_can_be_changed_or_switched_off(servers, tmp_path):
    text = "mcp_servers: {a: {command: x, lock: pins/a.lock}, b: {command: x, lock: off}, c: x}\n"

    assert [server.options.lock for server in servers(text)] == [
        tmp_path / "pins/a.lock",
        None,
        tmp_path / "surehand.lock",
    ]


def test_the_number_of_concurrent_starts_is_a_default(tmp_path):
    path = tmp_path / "surehand.yaml"
    path.write_text("defaults: {mcpInitConcurrency: 3}\n")

    assert read_config(path).defaults.mcp_init_concurrency == 3
    path.write_text("defaults: {mcp_init_concurrency: off}\n")
    assert read_config(path).defaults.mcp_init_concurrency is None
