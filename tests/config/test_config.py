"""The configuration file: formats, sections, and errors."""

from dataclasses import fields
from pathlib import Path

import pytest

from surehand.assemble import assemble
from surehand.config.config import SECTION_PARSERS, find_config, read_config
from surehand.config.errors import ConfigError
from surehand.config.sections import DEFAULTS_PARSERS
from surehand.config.store_address import hide_password
from surehand.runtime.defaults import Defaults
from surehand.runtime.limits.queues import Queue

YAML = """\
defaults: {tool_timeout: 5m, max_output: 100kB, max_concurrent: 3}
workspace: {root: ., writes: false}
policy:
  - {tools: "git__*", effects: [read], decision: allow}
  - {effects: [execute, network], decision: ask, reason: careful}
  - {tools: [rm, mv], arguments: {path: "/etc/*"}, decision: deny}
queues: {github: {concurrent: 3, rate: 30/min}}
store: calls.db
tools: [tools.py, "package.module:thing"]
"""
JSON = """\
{
\t"defaults": {"toolTimeout": 300000, "toolResponseMaxBytes": 100000, "maxConcurrent": 3},
\t"workspace": {"root": ".", "writes": false},
\t"policy": [
\t\t{"tools": "git__*", "effects": "read", "decision": "allow"},
\t\t{"effects": ["execute", "network"], "decision": "ask", "reason": "careful"},
\t\t{"tools": ["rm", "mv"], "arguments": {"path": "/etc/*"}, "decision": "deny"}],
\t"queues": {"github": {"concurrent": 3, "rate": "30/min"}},
\t"store": "calls.db",
\t"tools": ["tools.py", "package.module:thing"]
}
"""
TOML = """\
store = "calls.db"
tools = ["tools.py", "package.module:thing"]
[defaults]
tool_timeout_ms = 300_000
max_output = "0.1MB"
max_concurrent_tools = 3
[workspace]
root = "."
writes = false
[[policy]]
tools = "git__*"
effects = ["read"]
decision = "allow"
[[policy]]
effects = ["execute", "network"]
decision = "ask"
reason = "careful"
[[policy]]
tools = ["rm", "mv"]
arguments = {path = "/etc/*"}
decision = "deny"
[queues.github]
concurrent = 3
rate = "30/min"
"""


@pytest.fixture
def read(tmp_path):
    def read(text: str, ending: str = "yaml"):
        path = tmp_path / f"surehand.{ending}"
        path.write_text(text, encoding="utf-8")
        return read_config(path)

    return read


@pytest.fixture
def refused(read, tmp_path):
    def refused(text: str, ending: str = "yaml") -> str:
        with pytest.raises(ConfigError) as error:
            read(text, ending)
        return str(error.value).replace(f"{tmp_path}/", "")

    return refused


@pytest.mark.parametrize(("text", "ending"), [(YAML, "yaml"), (JSON, "json"), (TOML, "toml")])
def test_every_format_has_the_same_meaning(read, text, ending, tmp_path):
    config = read(text, ending)

    assert config.defaults == Defaults(tool_timeout=300.0, max_output=100_000, max_concurrent=3)
    assert config.workspace.resolve_root({}) == tmp_path.resolve()
    assert config.workspace.writes is False
    assert [(rule.decision, rule.tools, sorted(rule.effects)) for rule in config.policy.rules] == [
        ("allow", ("git__*",), ["read"]),
        ("ask", ("*",), ["execute", "network"]),
        ("deny", ("rm", "mv"), []),
    ]
    assert (config.policy.rules[1].reason, config.policy.rules[2].arguments) == ("careful", {"path": "/etc/*"})
    assert config.queues == {"github": Queue(3, "30/min")}
    assert config.store.resolve_address({}) == str(tmp_path.resolve() / "calls.db")
    assert [source.location for source in config.tools] == ["tools.py", "package.module:thing"]


def test_every_default_can_be_set():
    assert list(DEFAULTS_PARSERS) == [field.name for field in fields(Defaults)]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("30", 30), ("30s", 30), ("'1500'", 1500), ("500ms", 0.5), ("2h", 7200), ("off", None), ("'OFF'", None)],
)
def test_durations(read, written, seconds):
    assert read(f"defaults: {{tool_timeout: {written}}}").defaults.tool_timeout == seconds


@pytest.mark.parametrize(("written", "seconds"), [("30000", 30), ("'30000'", 30), ("5m", 300), ("off", None)])
def test_a_bare_number_under_a_camel_case_key_is_milliseconds(read, written, seconds):
    assert read(f"defaults: {{toolTimeout: {written}}}").defaults.tool_timeout == seconds


@pytest.mark.parametrize(
    ("written", "size"), [("20000", 20_000), ("100kB", 100_000), ("1MB", 1_000_000), ("64KiB", 65_536), ("1.5k", 1500)]
)
def test_sizes(read, written, size):
    assert read(f"defaults: {{max_output: {written}}}").defaults.max_output == size


@pytest.mark.parametrize("text", ["", "# nothing\n", "policy:\ntools:\n"])
def test_empty_sections_change_nothing(read, text):
    config = read(text)

    assert (config.policy, config.tools, config.defaults) == (None, (), Defaults())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\npolcy: []\n", "surehand.yaml:2: Unknown key 'polcy'. Fix: did you mean 'policy'?"),
        ("defaults:\n  maxOutputt: 5\n", "yaml:2: Unknown key 'maxOutputt'. Fix: did you mean 'max_output'?"),
        ("xyz: 1\n", f"yaml:1: Unknown key 'xyz'. Fix: Known here: {', '.join(SECTION_PARSERS)}."),
        ("policy:\n- decision: ask\n  effect: [read]\n", "yaml:3: Unknown key 'effect'. Fix: did you mean 'effects'?"),
        ("queues:\n  a: {concurent: 1}\n", "yaml:2: Unknown key 'concurent'. Fix: did you mean 'concurrent'?"),
        ("workspace:\n  rooot: .\n", "yaml:2: Unknown key 'rooot'. Fix: did you mean 'root'?"),
        (
            "defaults:\n  tool_timeout: 5s\n  toolTimeout: 6\n",
            "yaml:3: toolTimeout and tool_timeout set the same value.",
        ),
        ("tools: [a.py]\ntools: [b.py]\n", "yaml:2: Duplicate key tools, first in line 1."),
        ("a: 1\n 2\n: [\n", "yaml:3: The file is not valid YAML"),
        ("tools: *nowhere\n", "yaml:1: The file is not valid YAML"),
        ("5: x\n", "yaml:1: A key in the file is not a string."),
        ("- a\n", "yaml: the file must be a mapping of keys to values."),
        ("policy:\n- {tools: x}\n", "yaml:2: A rule needs a decision. Fix: write decision: ask."),
        ("policy:\n- {tools: x, decision: maybe}\n", "yaml:2: decision must be allow, ask or deny."),
        ("queues:\n  bank: 1\n", "yaml:2: bank must be a mapping of keys to values. Fix: write {concurrent: 1}, or"),
        (
            "builtin: files\n",
            "yaml:1: builtin must be a list of families, or a mapping with settings. Fix: write [files",
        ),
    ],
)
def test_mistakes_are_named_with_their_line(refused, text, problem):
    assert problem in refused(text)


@pytest.mark.parametrize(
    ("text", "ending", "problem"),
    [
        ('{\n\t"defaults": {\n\t\t"toolTimeot": 5}}', "json", "json:3: Unknown key 'toolTimeot'. Fix: did you mean"),
        ('{\n"tools": [],\n"tools": []}', "json", "json:3: Duplicate key tools"),
        ('{\n"tools": [}', "json", "json:2: The file is not valid JSON"),
        ("[defaults]\n\ntool_timeot = 5\n", "toml", "toml:3: Unknown key 'tool_timeot'. Fix: did you mean"),
        ("[[policy]]\ndecision = 'ask'\n[[policy]]\neffect = 'x'\n", "toml", "toml:4: Unknown key 'effect'"),
        ("tools = [\n", "toml", "The file is not valid TOML"),
    ],
)  # fmt: skip
def test_json_and_toml_name_the_line_too(refused, text, ending, problem):
    assert problem in refused(text, ending)


@pytest.mark.parametrize(
    "section",
    ["openapi: {}", "gateway: {}"],
)
def test_unavailable_sections_are_reported(refused, section):
    assert "surehand.yaml:2: " in (told := refused(f"\n{section}\n"))
    assert "not available in this version" in told


@pytest.mark.parametrize(
    "text",
    [
        "defaults: {tool_timeout: hunter2}",
        "defaults: {tool_timeout: -5}",
        "defaults: {tool_timeout: .inf}",
        "defaults: {tool_timeout: true}",
        "defaults: {retry_delay: off}",
        "defaults: {max_output: hunter2}",
        "defaults: {max_output: 0}",
        "defaults: {max_concurrent: 1.5}",
        "defaults: hunter2",
        "workspace: {root: [hunter2]}",
        "workspace: {writes: true}",
        "workspace: {root: ., writes: hunter2}",
        "store: [hunter2]",
        "store: {file: hunter2}",
        "store: ''",
        "policy: hunter2",
        "policy: [hunter2]",
        "policy: [{decision: hunter2}]",
        "policy: [{decision: [hunter2]}]",
        "policy: [{effects: [hunter2], decision: ask}]",
        "policy: [{tools: [{hunter2: 1}], decision: ask}]",
        "policy: [{arguments: hunter2, decision: ask}]",
        "queues: {a: {rate: hunter2}}",
        "queues: {a: hunter2}",
        "tools: hunter2",
        "tools: [[hunter2]]",
        "tools: !hunter2 x",
        "tools: 'hunter2",
        "a: *hunter2",
    ],
)
def test_a_wrong_value_is_refused_and_never_quoted(refused, text):
    told = refused(text)

    assert "surehand.yaml" in told
    assert "hunter2" not in told.replace("tag '!hunter2'", "")


def test_variables_are_expanded_late_and_a_missing_one_is_named(read, tmp_path):
    (tmp_path / "place").mkdir()
    config = read('\nworkspace: "${WHERE}/"\n')

    assert config.workspace.resolve_root({"WHERE": "place"}) == (tmp_path / "place").resolve()
    with pytest.raises(ConfigError, match="yaml:2: workspace needs the environment variable WHERE, which is not set"):
        assemble(config, environment={})
    with pytest.raises(ConfigError, match=r"yaml:2: The root of the workspace does not exist: \$\{WHERE\}/") as error:
        assemble(config, environment={"WHERE": "hunter2"})
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("calls.db", "{folder}/calls.db"),
        ("../calls.db", "{parent}/calls.db"),
        ("/var/calls.db", "/var/calls.db"),
        ("~/calls.db", "{home}/calls.db"),
        ("${NAME}.db", "{folder}/ada.db"),
        ("':memory:'", ":memory:"),
        ("postgresql://me:${SECRET}@db/calls", "postgresql://me:hunter2@db/calls"),
        ("postgres://db/calls", "postgres://db/calls"),
    ],
)
def test_a_store_is_a_file_beside_the_configuration_or_a_server(read, tmp_path, written, address):
    folder = tmp_path.resolve()

    found = read(f"store: {written}").store.resolve_address({"NAME": "ada", "SECRET": "hunter2"})

    assert found == address.format(folder=folder, parent=folder.parent, home=Path.home())


@pytest.mark.parametrize("value", ["mysql://hunter2@db/calls", "", "  "])
def test_an_invalid_store_is_refused_and_never_quoted(read, value):
    config = read("\nstore: ${STORE}\n")

    with pytest.raises(
        ConfigError, match=r"yaml:2: store must be a file or a postgresql:// address\. Fix: write"
    ) as error:
        assemble(config, environment={"STORE": value})
    assert "hunter2" not in str(error.value)
    with pytest.raises(ConfigError, match="yaml:2: store needs the environment variable STORE, which is not set"):
        assemble(config, environment={})


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:hunter2@db:5432/calls", "postgresql://me:***@db:5432/calls"),
        ("postgresql://me:hun@ter2@db/calls", "postgresql://me:***@db/calls"),
        ("postgresql://db/calls?user=me&password=hunter2&sslmode=require", "postgresql://db/calls?user=me&password=***&sslmode=require"),
        ("postgresql://me@db/calls", "postgresql://me@db/calls"),
        ("/var/lib/calls.db", "/var/lib/calls.db"),
    ],
)  # fmt: skip
def test_an_address_is_shown_without_its_password(address, shown):
    assert hide_password(address) == shown


async def test_an_assembled_runtime_uses_the_store_of_the_file(read, tmp_path):
    config = read("store: calls.db")

    async with assemble(config) as runtime:
        assert runtime.store.address == str(tmp_path.resolve() / "calls.db")
    async with assemble(config, store=str(tmp_path / "other.db")) as runtime:
        assert runtime.store.address == str(tmp_path / "other.db")
    async with assemble(read("policy: []")) as runtime:
        assert runtime.store is None


def test_an_assembled_runtime_uses_the_settings_of_the_file(read, tmp_path):
    runtime = assemble(read("defaults: {max_output: 5kB}\nworkspace: .\npolicy: []\nqueues: {a: {concurrent: 2}}\n"))

    assert runtime.defaults.max_output == 5000
    assert runtime.workspace == str(tmp_path.resolve())
    assert (runtime.policy.rules, runtime.queues()["a"].capacity) == ((), 2)


def test_without_a_policy_dangerous_calls_need_approval():
    [rule] = assemble().policy.rules

    assert (rule.decision, rule.effects) == ("ask", {"write", "execute", "network"})


def test_the_file_of_a_folder_is_found_and_two_are_an_error(tmp_path):
    assert find_config(tmp_path) is None
    (tmp_path / "surehand.json").write_text("{}")
    assert find_config(tmp_path) == tmp_path / "surehand.json"
    (tmp_path / "surehand.yml").write_text("")
    with pytest.raises(ConfigError, match=r"several configuration files: surehand.yml, surehand.json"):
        find_config(tmp_path)


def test_a_missing_or_unknown_file_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        read_config(tmp_path / "absent.yaml")
    with pytest.raises(ConfigError, match=r"use a file that ends in .yaml, .yml, .json, .toml"):
        read_config(tmp_path / "x.ini")
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_config(tmp_path / "x.yaml")


def _doubling(first: str, line: str, count: int) -> str:
    return first + "".join(line.format(this=number, last=number - 1) for number in range(1, count))


@pytest.mark.parametrize(
    "text",
    [
        _doubling("a0: &a0 {k: 1}\n", "a{this}: &a{this}\n  <<: [*a{last}, *a{last}]\n", 60),
        _doubling("a0: &a0 {k: 1}\n", "a{this}: &a{this} {{x: *a{last}, y: *a{last}}}\n", 60),
        _doubling("a0: &a0 [x]\n", "a{this}: &a{this} [*a{last}, *a{last}]\n", 60),
        _doubling("a0: &a0 [x]\n", "a{this}: &a{this} {{? *a{last} : *a{last}}}\n", 60),
    ],
    ids=["merge keys", "mappings", "lists", "keys"],
)
def test_anchors_and_merge_keys_of_yaml_expand_to_a_bounded_number_of_values(refused, text):
    assert "anchors and merge keys expand to more than 100,000 values" in refused(text)


@pytest.mark.parametrize("text", ["tools: &a [*a]\n", "defaults: &a\n  <<: *a\n", "a: &a\n  b: {<<: [*a]}\n"])
def test_a_yaml_anchor_that_contains_itself_is_an_error(refused, text):
    assert refused(text) == "surehand.yaml:1: The file cannot be read: an anchor contains itself."


def test_ordinary_anchors_and_merge_keys_work(read):
    config = read("queues:\n  a: &a {concurrent: 3, rate: 30/min}\n  b: {<<: *a, concurrent: 5}\n  c: *a\n")

    assert [(queue.concurrent, str(queue.rate)) for queue in config.queues.values()] == [
        (3, str(config.queues["a"].rate)),
        (5, str(config.queues["a"].rate)),
        (3, str(config.queues["a"].rate)),
    ]
