"""Server entries in the files of other programs and in our own."""

import json
import re
import sys
from contextlib import suppress
from pathlib import Path

import mcp as mcp_sdk  # noqa: F401 - imported here because it takes a second, which would count for the first test
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surehand import DefinitionError, Runtime, mcp
from surehand.providers.mcp.config.keys import (
    DOCUMENTED_KEYS,
    KEY_ALIASES,
    OPTION_PARSERS,
    PYTHON_OPTION_NAMES,
    UNDOCUMENTED_KEYS,
)
from surehand.providers.mcp.config.server_block import find_server_block
from surehand.providers.mcp.config.server_entry import ServerEntry
from surehand.providers.mcp.config.values import FileNode, FileNodeError
from surehand.providers.mcp.config.variables import Variables
from surehand.providers.mcp.options import ServerOptions

SERVER = Path(__file__).parents[1] / "peers/environment_server.py"


def read(value, **_) -> list[ServerEntry]:
    return find_server_block(FileNode(value)).entries()


def one(entry) -> ServerEntry:
    [found] = read({"mcpServers": {"one": entry}})
    return found


def mistake(value) -> FileNodeError:
    with pytest.raises(FileNodeError) as raised:
        read(value)
    return raised.value


CLAUDE = """\
{
  "globalShortcut": "Ctrl+Space",
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ada/Desktop"]
    },
    "github": {
      "type": "stdio",
      "command": "docker",
      "args": ["run", "-i", "--rm", "-e", "GITHUB_TOKEN", "ghcr.io/github/github-mcp-server"],
      "env": {"GITHUB_TOKEN": "ghp_hunter2"}
    },
    "sentry": {"type": "http", "url": "https://mcp.sentry.dev/mcp", "headers": {"Authorization": "Bearer hunter2"}}
  }
}
"""
CURSOR = """\
{
  "mcpServers": {
    "local": {"command": "uvx", "args": ["mcp-server-git"], "envFile": "${workspaceFolder}/.env"},
    "remote": {"url": "https://api.example.com/sse", "headers": {"X-Key": "${env:KEY}"}},
    "signed-in": {
      "url": "https://api.example.com/mcp",
      "auth": {"CLIENT_ID": "${env:ID}", "CLIENT_SECRET": "${env:SECRET}", "scopes": ["read", "write"]}
    }
  }
}
"""
VSCODE = """\
{
  // Asked for once.
  "inputs": [
    {"type": "promptString", "id": "perplexity-key", "description": "API key", "password": true},
    {"type": "promptString", "id": "region", "default": "eu",},
  ],
  "servers": {
    "io.github.microsoft/playwright-mcp": {
      "type": "stdio", "command": "npx", "args": ["-y", "@playwright/mcp@latest"],
      "gallery": "https://api.mcp.github.com", "version": "1.0.0",
    },
    /* another */
    "perplexity": {
      "type": "stdio", "command": "npx", "args": ["-y", "perplexity", "--region", "${input:region}"],
      "env": {"KEY": "${input:perplexity-key}"}, "cwd": "${workspaceFolder}/tools", "dev": {"watch": "*.ts"}
    },
    "docs": {"type": "sse", "url": "https://docs.example.com/events"}
  }
}
"""


@pytest.fixture
def file(tmp_path):
    def write(text: str, name: str = "mcp.json") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_file_of_claude_desktop_is_read_unchanged(file):
    found = mcp.servers(file(CLAUDE, "claude_desktop_config.json"))

    assert [server.namespace for server in found] == ["filesystem", "github", "sentry"]
    assert found[0].address.label == "npx -y @modelcontextprotocol/server-filesystem /Users/ada/Desktop"
    assert found[2].address.label == "https://mcp.sentry.dev/mcp"
    assert not any("hunter2" in f"{server.address.label}{server.address.identity}{server!r}" for server in found)


def test_a_file_of_cursor_is_read_unchanged(file, tmp_path):
    path = file(CURSOR, ".cursor/mcp.json")
    entries = read(json.loads(CURSOR))

    assert [(entry.name, entry.transport_type) for entry in entries] == [
        ("local", "stdio"),
        ("remote", "sse"),
        ("signed-in", "http"),
    ]
    assert entries[2].auth == {
        "type": "oauth", "client_id": "${env:ID}", "client_secret": "${env:SECRET}", "scopes": ["read", "write"],
    }  # fmt: skip
    [local, *_] = mcp.servers(path)
    assert local.address.identity.endswith(f":{tmp_path.resolve()}")


def test_a_file_of_vs_code_is_read_with_comments_and_trailing_commas(file, tmp_path):
    found = mcp.servers(file(VSCODE, ".vscode/mcp.json"))

    assert [server.namespace for server in found] == ["io_github_microsoft_playwright-mcp", "perplexity", "docs"]
    assert found[1].address.substitute("${input:region} ${workspaceFolder}") == f"eu {tmp_path.resolve()}"
    with pytest.raises(DefinitionError, match="PERPLEXITY_KEY is not set"):
        found[1].address.substitute("${input:perplexity-key}")


@pytest.mark.parametrize(
    "value",
    [
        {"mcpServers": {"a": {"command": "x"}}},
        {"mcp_servers": {"a": {"command": "x"}}},
        {"servers": {"a": {"command": "x"}}},
        {"mcp": {"servers": {"a": {"command": "x"}}}},
        {"mcp": {"servers": [{"name": "a", "command": "x"}]}},
        {"mcp": {"a": {"type": "local", "command": ["x"]}}},
        {"tools": {"timeout": 5, "mcpServers": [{"name": "a", "transport": "stdio", "command": "x"}]}},
        {"a": {"command": "x"}},
        {"a": "x"},
        [{"name": "a", "command": "x"}],
        [{"serverName": "a", "command": "x"}],
    ],
)
def test_the_block_of_servers_is_found(value):
    assert [(entry.name, entry.transport_type, entry.command) for entry in read(value)] == [("a", "stdio", "x")]


@pytest.mark.parametrize("name", ["command", "url", "servers", "mcp", "tools", "inputs"])
def test_a_server_may_have_any_name_in_its_block(name):
    assert [entry.name for entry in read({"mcpServers": {name: {"command": "x"}}})] == [name]


def test_a_server_may_be_called_like_a_block():
    assert [entry.name for entry in read({"mcp": {"command": "x"}, "servers": {"url": "https://x"}})] == [
        "mcp",
        "servers",
    ]


@pytest.mark.parametrize("value", [{}, {"mcpServers": {}}, {"mcpServers": []}])
def test_an_empty_block_is_valid(value):
    assert read(value) == []


def test_a_file_without_servers_says_how_to_write_them():
    assert "The file has no MCP servers. Fix: put them under mcpServers" in str(mistake({"editor.fontSize": 12}))


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ({"type": "local", "command": "x"}, "stdio"),
        ({"type": "remote", "url": "https://host/mcp"}, "http"),
        ({"type": "remote", "url": "https://host/sse"}, "sse"),
        ({"url": "https://host/mcp"}, "http"),
        ({"url": "https://host/sse"}, "sse"),
        ({"type": "http", "url": "https://host/sse"}, "http"),
        ({"type": "streamableHttp", "url": "https://host/"}, "http"),
        ({"transport": "streamable-http", "url": "https://host/"}, "http"),
        ({"transport": "sse", "url": "https://host/"}, "sse"),
        ({"type": "websocket", "url": "wss://host/"}, "websocket"),
        ({"url": "ws://host/sse"}, "websocket"),
        ({"serverUrl": "https://host/mcp"}, "http"),
        ({"command": "x"}, "stdio"),
        ("https://host/mcp", "http"),
        ("uvx mcp-server-git", "stdio"),
    ],
)
def test_the_transport_is_given_by_type_or_found_from_command_and_url(entry, kind):
    assert one(entry).transport_type == kind


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"command": ["npx", "-y"], "args": ["pkg"]}, ["npx", "-y", "pkg"]),
        ({"command": "npx", "args": ["-y", "pkg", 5]}, ["npx", "-y", "pkg", "5"]),
        ({"command": "npx -y 'my pkg'"}, ["npx", "-y", "my pkg"]),
        ({"command": "/opt/my tools/run", "args": []}, ["/opt/my tools/run"]),
        ("npx -y pkg", ["npx", "-y", "pkg"]),
    ],
)
def test_a_command_is_a_word_a_line_or_a_list(entry, words):
    found = one(entry)

    assert [found.command, *found.args] == words


def test_numbers_and_booleans_for_a_command_become_text():
    found = one({"command": "x", "environment": {"PORT": 80, "DEBUG": True, "NONE": None, "EMPTY": ""}})

    assert found.env == {"PORT": "80", "DEBUG": "true", "EMPTY": ""}


@pytest.mark.parametrize(
    ("entry", "options"),
    [
        ({"toolsAllowed": ["a"], "toolsDenied": ["b"]}, {"allow": ["a"], "deny": ["b"]}),
        ({"allowedTools": ["a"]}, {"allow": ["a"]}),
        ({"include": "a*", "exclude": "b*"}, {"allow": ["a*"], "deny": ["b*"]}),
        ({"requestTimeoutMs": 60000}, {"total": 60, "timeout": None}),
        ({"toolTimeout": 30000, "requestTimeoutMs": 60000}, {"total": 30, "timeout": None}),
        ({"tool_timeout": 30, "timeout": 10, "total": 20}, {"total": 20, "timeout": 10}),
        ({"timeout": 30}, {"timeout": 30}),
        ({"timeout": "off", "total": False}, {"timeout": None, "total": None}),
        ({"startup_timeout_sec": 20}, {"start_timeout": 20}),
        ({"cache": 300000}, {"cache": 300}),
        ({"cache": "5m"}, {"cache": 300}),
        ({"cache": "off"}, {"cache": None}),
        ({"toolsCache": {"get_*": 5000, "now": "off"}}, {"tools_cache": {"get_*": 5, "now": None}}),
        ({"shared": True}, {"per": "everyone"}),
        ({"shared": False}, {"per": "session"}),
        ({"per": "user"}, {"per": "user"}),
        ({"healthProbe": "listTools"}, {"probe": "list"}),
        ({"healthProbe": "ping"}, {"probe": "ping"}),
        ({"toolPrefix": "gh_"}, {"namespace": "gh"}),
        ({"namespace": "gh"}, {"namespace": "gh"}),
        ({"queue": "slow", "required": True, "idle": "5m"}, {"queue": "slow", "required": True, "idle": 300}),
        ({"effects": {"get_*": ["read"]}}, {"effects": {"get_*": ["read"]}}),
        ({"effects": ["read", "network"]}, {"effects": {"*": ["read", "network"]}}),
        ({"protocol": "2026-07-28"}, {"protocol": "2026-07-28"}),
        ({"lock": "l.lock", "frozen": True}, {"lock": "l.lock", "frozen": True}),
        ({"lock": False, "manifest": False}, {"lock": None, "manifest": False}),
    ],
)
def test_options_are_accepted_under_the_names_of_other_programs(entry, options):
    assert one({"command": "x", **entry}).options == {"namespace": "one", **options}


def test_a_bare_number_in_our_own_files_is_seconds():
    [found] = read({"mcp_servers": {"one": {"command": "x", "cache": 300}}})

    assert found.options["cache"] == 300


def test_the_option_keys_match_the_python_options():
    names = {PYTHON_OPTION_NAMES.get(name, name) for name in OPTION_PARSERS}

    assert names == set(ServerOptions.__dataclass_fields__)
    assert set(KEY_ALIASES.values()) <= {*DOCUMENTED_KEYS, *UNDOCUMENTED_KEYS}
    assert not set(KEY_ALIASES) & {*DOCUMENTED_KEYS, *UNDOCUMENTED_KEYS}


def test_a_server_that_is_switched_off_is_left_out():
    entries = {"a": {"command": "x", "enabled": False}, "b": {"command": "x", "disabled": True}, "c": {"command": "x"}}

    assert [server.namespace for server in mcp.servers(entries)] == ["c"]


def test_keys_that_policy_decides_are_ignored_with_a_note():
    found = one({"command": "x", "autoApprove": ["read_file"], "toolSchemas": {}, "description": "mine"})

    assert found.ignored_key_notes == (
        "autoApprove is left out: what may run without being asked about is decided by policy.",
        "toolSchemas is left out: schemas are the server's own.",
    )


def test_keys_of_other_programs_are_ignored():
    sandbox = {"filesystem": {"allowWrite": ["${workspaceFolder}"]}, "network": {"allowedDomains": ["example.com"]}}
    ours = {"command": "x", "sandbox": {"network": True}}
    code = {"command": "x", "sandboxEnabled": True, "sandbox": sandbox, "dev": {}, "gallery": True, "version": "1"}
    claude = {"url": "https://x", "headersHelper": "get-headers", "alwaysLoad": True,
              "oauth": {"clientId": "us", "callbackPort": 8080, "authServerMetadataUrl": "https://x/m"}}  # fmt: skip

    assert one(ours).connection_options == {"sandbox": {"network": True}}
    assert one(code).connection_options == {}
    assert [note.partition(":")[0] for note in one(code).ignored_key_notes] == [
        "sandboxEnabled is left out",
        "sandbox is left out",
    ]
    assert one(claude).auth == {"type": "oauth", "client_id": "us", "redirect_port": 8080}
    assert [note.partition(" ")[0] for note in one(claude).ignored_key_notes] == [
        "headersHelper",
        "authServerMetadataUrl",
    ]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"command": "x", "sandboxEnabledd": True}, "Unknown key 'sandboxEnabledd'."),
        ({"command": "x", "toolsAlowed": []}, "Unknown key 'toolsAlowed'. Fix: did you mean 'tools_allowed'?"),
        ({"comand": "x"}, "Unknown key 'comand'. Fix: did you mean 'command'?"),
        ({"args": []}, "one has neither a command nor a url."),
        ({"type": "stdio", "url": "https://x"}, "one is of type stdio, which needs a command."),
        ({"type": "sse", "command": "x"}, "one is of type sse, which needs a url."),
        ({"command": "x", "url": "https://x"}, "one has a command, so url has no effect."),
        ({"url": "https://x", "env": {}}, "one has a url, so env has no effect."),
        ({"type": "carrier pigeon", "command": "hunter2"}, "type has an unknown value. Fix: use stdio, local, http"),
        (
            {"command": "x", "toolsAllowed": ["a"], "allowedTools": []},
            "allowedTools and toolsAllowed set the same option.",
        ),
        ({"command": "x", "shared": True, "per": "user"}, "shared and per set the same option."),
        ({"command": ["hunter2", ["x"]]}, "1 must be text."),
        ({"command": []}, "command is empty."),
        ({"command": "x 'hunter2"}, "command has an unclosed quote."),
        ({"command": "x", "args": "hunter2"}, "args must be a list."),
        ({"command": "x", "env": ["hunter2"]}, "env must be a mapping."),
        ({"command": "x", "env": {"A": ["hunter2"]}}, "A must be text."),
        ({"url": "hunter2"}, "url must be a URL."),
        ({"command": "x", "timeout": "hunter2"}, "timeout must be a duration."),
        ({"command": "x", "timeout": -1}, "timeout must be a positive duration."),
        ({"command": "x", "enabled": "hunter2"}, "enabled must be true or false."),
        ({"command": "x", "effects": ["hunter2"]}, "effects has an unknown effect."),
        ({"command": "x", "protocol": "hunter2"}, "protocol has an unknown value."),
        ({"command": "x", "sandbox": {"netwrk": True}}, "Unknown key 'netwrk'. Fix: did you mean 'network'?"),
        ({"url": "https://x", "auth": {"type": "client_credentials"}}, "client_credentials needs a client_id."),
        ({"command": "x", "namespace": "two words"}, "namespace must be a legal name."),
        ({"url": "wss://x", "auth": "oauth"}, "one is a WebSocket server, which has no sign-in."),
        (None, "one must be a mapping."),
        (5, "one must be a mapping."),
    ],
)
def test_an_error_names_the_key_and_never_the_value(entry, message):
    error = str(mistake({"mcpServers": {"one": entry}}))

    assert error.startswith(message)
    assert "hunter2" not in error


@pytest.mark.parametrize("block", ["mcpServers", "servers"])
@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("awslabs.core-mcp-server", "awslabs_core-mcp-server"),
        ("@modelcontextprotocol/server-github", "modelcontextprotocol_server-github"),
        ("My Server", "My_Server"),
        ("two__parts", "two_parts"),
        ("ends_", "ends"),
        ("-dash", "dash"),
        ("_under", "_under"),
        ("数据", "server"),
    ],
)
def test_any_server_name_gives_a_valid_namespace(block, name, namespace):
    [found] = read({block: {name: {"command": "x"}}})
    [server] = mcp.servers({block: {name: {"command": "x"}}})

    assert (found.name, server.namespace) == (name, namespace)


@pytest.mark.parametrize("order", [("a.b", "a b", "a_b", "a/b"), ("a/b", "a_b", "a b", "a.b")])
def test_names_with_the_same_namespace_get_a_hash(order):
    found = [server.namespace for server in mcp.servers({name: {"command": "x"} for name in order})]

    assert found[order.index("a_b")] == "a_b"
    assert len(set(found)) == 4
    assert all(re.fullmatch(r"a_b(_[0-9a-f]{8})?", namespace) for namespace in found)


def test_a_missing_variable_is_reported_with_the_server_name_of_the_file():
    [server] = mcp.servers({"awslabs.core": {"command": "${NOT_SET}"}}, environment={})

    with pytest.raises(DefinitionError, match=r"The MCP server 'awslabs\.core' cannot be used"):
        server.address.resolve()


def test_an_entry_may_set_its_namespace():
    [found] = read({"mcpServers": {"bad name": {"command": "x", "namespace": "good"}}})
    assert (found.name, found.options["namespace"]) == ("bad name", "good")


@pytest.mark.parametrize("other", [{"namespace": "b"}, {"tool_prefix": "b_"}])
def test_two_enabled_servers_cannot_share_a_namespace(other):
    servers = {"one": {"command": "x", "namespace": "b"}, "two": {"command": "y", **other}}

    assert "two and one have the same namespace, b." in str(mistake({"mcpServers": servers}))
    assert len(read({"mcpServers": {**servers, "two": {**servers["two"], "disabled": True}}})) == 2


def test_servers_in_a_list_need_unique_names():
    assert "Two servers have the name 'a'." in str(
        mistake([{"name": "a", "command": "x"}, {"name": "a", "command": "y"}])
    )
    assert "A server in a list needs a name." in str(mistake([{"command": "x"}]))


@pytest.mark.parametrize(
    ("text", "name", "where"),
    [
        ('{\n"mcpServers": {\n"a": {"command": "x",\n"timout": 5}}}', "mcp.json", "mcp.json:4: Unknown key 'timout'"),
        (
            '{\n"mcpServers": {\n"a": {"command": "x"},\n"a": {}}}',
            "mcp.json",
            "mcp.json:4: The key a occurs twice, first in line 3",
        ),
        ('{\n"mcpServers": {', "mcp.json", "mcp.json:2: The file is not valid JSON"),
        ("mcpServers:\n  - name: a\n    comand: x\n", "c.yaml", "c.yaml, mcpServers.0.comand: Unknown key 'comand'"),
        ("[mcp_servers.a]\ncomand = 'x'\n", "c.toml", "c.toml, mcp_servers.a.comand: Unknown key 'comand'"),
        ("a: [", "c.yaml", "c.yaml: The file is not valid YAML"),
        ("a: &a [*a]", "c.yaml", "c.yaml:1: The file cannot be read: an anchor contains itself"),
    ],
)
def test_errors_in_a_file_name_the_line(file, tmp_path, text, name, where):
    with pytest.raises(DefinitionError) as error:
        mcp.servers(file(text, name))

    assert str(error.value).replace(f"{tmp_path}/", "").startswith(where)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DefinitionError, match=r"absent.json: The file cannot be read: No such file"):
        mcp.servers(tmp_path / "absent.json")


def test_shared_options_apply_unless_an_entry_sets_its_own():
    found = mcp.servers(
        {"a": {"command": "x", "timeout": 5, "toolsDenied": ["one"]}, "b": {"command": "x"}}, timeout=9, deny=["two"]
    )

    assert [(server.options.timeout, server.options.deny) for server in found] == [(5, ("two", "one")), (9, ("two",))]
    with pytest.raises(DefinitionError, match="cannot share a namespace"):
        mcp.servers({"a": {"command": "x"}}, namespace="b")
    with pytest.raises(DefinitionError, match="'timout' is not an option"):
        mcp.servers({"a": {"command": "x"}}, timout=5)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("${NAME}", "ada"),
        ("${env.NAME}", "ada"),
        ("${env:NAME}", "ada"),
        ("${NAME:-bob}", "ada"),
        ("${OTHER:-bob}", "bob"),
        ("${EMPTY:-bob}", "bob"),
        ("${env:OTHER:-bob}", "bob"),
        ("${OTHER:-}", ""),
        ("${EMPTY}", ""),
        ("Bearer ${NAME}/${NAME}", "Bearer ada/ada"),
        ("${TRICK}", "${NAME}"),
        ("$NAME {NAME} $${x", "$NAME {NAME} $${x"),
        ("${userHome}", str(Path.home())),
        ("a${/}b", "a/b"),
    ],
)
def test_variables_are_substituted_once(text, filled):
    environment = {"NAME": "ada", "TRICK": "${NAME}", "EMPTY": ""}

    assert Variables(environment).substitute(text, DefinitionError) == filled


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ({"command": "${WHICH}"}, "WHICH"),
        ({"command": "x", "args": ["${WHICH}"]}, "WHICH"),
        ({"command": "x", "cwd": "${WHICH}"}, "WHICH"),
        ({"url": "https://${WHICH}/mcp"}, "WHICH"),
    ],
)
async def test_a_missing_variable_is_named_when_the_server_is_used(file, tmp_path, entry, name):
    path = file(json.dumps({"mcpServers": {"one": {**entry, "manifest": False}}}, indent=1))

    [server] = mcp.servers(path, environment={})
    report = await server.check()
    await server.stop()

    assert not report.ok
    assert (
        f"mcp.json:3: The MCP server 'one' cannot be used: the environment variable {name} is not set." in report.error
    )


def test_auth_settings_are_substituted_when_used():
    entry = {
        "url": "https://${HOST}/${KEY}/mcp?q=${KEY}",
        "auth": {"clientId": "us", "clientSecret": "${KEY}", "scope": "a b"},
    }
    environment = {"HOST": "example.com"}

    [server] = mcp.servers({"one": entry}, environment=environment)
    with pytest.raises(DefinitionError, match="KEY is not set"):
        server.address.resolve()
    environment["KEY"] = "hunter2"
    now = server.address.resolve()

    assert (now.url, now.auth.client_secret) == ("https://example.com/hunter2/mcp?q=hunter2", "hunter2")
    assert (now.auth.client_id, now.auth.scopes) == ("us", ("a", "b"))
    assert now.label == server.address.label == "https://${HOST}/${KEY}/mcp"
    assert "hunter2" not in now.label + now.identity + server.address.identity


async def test_secrets_reach_only_the_server(file, tmp_path):
    (tmp_path / "more.env").write_text("# two\nexport FROM_FILE='hunter3' # quoted\nSAID=no\nnonsense\n")
    entry = {"command": sys.executable, "args": [str(SERVER), "${WORD}"], "envFile": "more.env", "manifest": False,
            "env": {"TOKEN": "${TOKEN}", "SAID": "yes"}}  # fmt: skip
    found = mcp.servers(
        file(json.dumps({"mcpServers": {"one": entry}})), environment={"TOKEN": "hunter2", "WORD": "hunter4"}
    )

    async with Runtime(*found) as runtime:
        outcome = await runtime.call("one__told", {"names": ["TOKEN", "FROM_FILE", "SAID"]})

    assert outcome.data == {"result": ["[redacted]", "hunter3", "yes", "hunter4"]}
    assert "hunter" not in repr(found[0]) + found[0].address.identity


KEYED = st.sampled_from(
    [*DOCUMENTED_KEYS, *UNDOCUMENTED_KEYS, *KEY_ALIASES, "mcpServers", "servers", "mcp", "inputs", "id", "default", "x"]
)
WORDS = st.sampled_from(["", "x", "${A}", "${input:b}", "http", "https://x", "5m", "off", "oauth", "a b", "'"])
PLAIN = st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | WORDS | st.text(max_size=5)
ANYTHING = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYED, inner, max_size=4), max_leaves=12
)


@settings(max_examples=150, deadline=None)
@given(ANYTHING)
def test_any_value_gives_servers_or_an_error(value):
    for block in (value, {"one": value}):
        with suppress(DefinitionError):
            mcp.servers({"mcpServers": block}, environment={})
