"""Two tools of one name in a configuration: the error's fix can be written in the file, and then holds."""

import re

import pytest

from surehand.assemble import assemble
from surehand.config.config import read_config
from surehand.config.errors import ConfigError

TOOLS = "from surehand import tool\n@tool\nasync def {name}() -> str:\n    '''Say it.'''\n    return '{said}'\n"


@pytest.fixture
def load(tmp_path):
    (tmp_path / "one.py").write_text(TOOLS.format(name="greet", said="one"))
    (tmp_path / "two.py").write_text(TOOLS.format(name="greet", said="two"))
    (tmp_path / "reader.py").write_text(TOOLS.format(name="json_parse", said="mine"))

    def load(text: str):
        (tmp_path / "surehand.yaml").write_text(text)
        return assemble(read_config(tmp_path / "surehand.yaml"), environment={})

    return load


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "tools:\n  - one.py\n  - two.py\n",
            "yaml:3: There is a tool 'greet' already, from one.py. Fix: write on_conflict: replace or",
        ),
        (
            "builtin: [data]\ntools: [reader.py]\n",
            "yaml:2: There is a tool 'json_parse' already, from the built-in data. Fix: write on_conflict",
        ),
        (
            "tools:\n  - one.py\n  - {name: greet, executionType: space}\n",
            "rename beside it, as in {name: greet, on_conflict: rename}, or rename one of them.",
        ),
    ],
)
def test_two_tools_of_one_name_are_an_error_whose_fix_can_be_written_in_the_file(load, text, problem):
    with pytest.raises(ConfigError) as error:
        load(text)

    assert problem in str(error.value)


async def test_a_source_may_replace_tools_or_rename_its_own(load):
    async with load("tools: [one.py, {source: two.py, on_conflict: replace}]") as runtime:
        assert [listing.name for listing in runtime.catalogue] == ["greet"]
        assert (await runtime.call("greet")).data == "two"
    async with load("tools: [one.py, {source: two.py, onConflict: rename}]") as runtime:
        assert [listing.name for listing in runtime.catalogue] == ["greet", "greet_2"]
        assert (await runtime.call("greet_2")).data == "two"


async def test_a_source_may_replace_a_built_in_tool(load):
    async with load("builtin: [data]\ntools: [{source: reader.py, on_conflict: replace}]") as runtime:
        assert (await runtime.call("json_parse", {})).data == "mine"
        assert (await runtime.call("base64_encode", {"text": "a"})).ok


async def test_a_definition_may_replace_a_tool_or_be_renamed(load):
    entry = "{{name: greet, executionType: internal, on_conflict: {how}}}"
    async with load(f"tools: [one.py, {entry.format(how='rename')}]") as runtime:
        assert (await runtime.call("greet")).data == "one"
        assert (await runtime.call("greet_2", {"a": 1})).data == {"success": True, "args": {"a": 1}}
    async with load(f"tools: [one.py, {entry.format(how='replace')}]") as runtime:
        assert (await runtime.call("greet", {})).data == {"success": True, "args": {}}


async def test_a_family_of_built_in_tools_takes_the_key_too(load):
    async with load("builtin: {data: {on_conflict: rename}, clock: {on_conflict: replace}}") as runtime:
        assert runtime.catalogue.find("json_parse") is not None


async def test_one_tool_that_two_sources_have_is_taken_once(load, tmp_path):
    (tmp_path / "first_greeting.py").write_text(TOOLS.format(name="greet", said="one"))
    (tmp_path / "second_greeting.py").write_text("from first_greeting import greet\n")

    async with load("tools: [first_greeting.py, second_greeting.py]") as runtime:
        assert (await runtime.call("greet")).data == "one"


async def test_the_tools_of_an_mcp_server_are_renamed_unless_its_entry_says_otherwise(load):
    [server] = load("mcp_servers: {one: {command: x}}").providers
    [strict] = load("mcp_servers: {one: {command: x, on_conflict: error}}").providers

    assert (server.on_conflict, strict.on_conflict) == ("rename", "error")


def test_two_servers_of_one_namespace_are_an_error_whose_fix_can_be_written_in_the_file(load):
    text = "mcp_servers:\n  one: {command: x}\n  two: {command: y, namespace: one}\n"

    with pytest.raises(ConfigError) as error:
        load(text)

    assert "yaml:3: two and one have the same namespace, one. Fix: give one of them another: namespace:" in str(
        error.value
    )
    assert len(load(re.sub("namespace: one", "namespace: other", text)).providers) == 2


def test_two_servers_of_one_name_in_a_list_are_an_error_whose_fix_can_be_written_in_the_file(load):
    with pytest.raises(ConfigError, match=r"Two servers have the name 'a'. Fix: rename one of them"):
        load("mcp_servers: [{name: a, command: x}, {name: a, command: y}]\n")


@pytest.mark.parametrize(
    "text", ["tools: [{source: one.py, on_conflict: hunter2}]", "builtin: {data: {on_conflict: hunter2}}"]
)
def test_an_unknown_choice_is_refused_and_never_quoted(load, text):
    with pytest.raises(
        ConfigError, match=r"on_conflict has an unknown value\. Fix: use error, replace, rename"
    ) as error:
        load(text)

    assert "hunter2" not in str(error.value)
