"""The section `builtin` of a configuration file, and the tools that are built from it."""

from pathlib import Path

import pytest

from surehand.assemble import assemble
from surehand.config.builtin_section import BUILTIN_SETTINGS
from surehand.config.config import read_config
from surehand.config.errors import ConfigError

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "config.md"


def assemble_file(folder: Path, text: str, **environment: str):
    (folder / "surehand.yaml").write_text(text, encoding="utf-8")
    return assemble(read_config(folder / "surehand.yaml"), environment=environment)


async def test_a_file_enables_families_by_name(tmp_path):
    async with assemble_file(tmp_path, "builtin: [data, clock]") as runtime:
        assert {"json_parse", "current_time"} <= {listing.name for listing in runtime.catalogue}
        assert (await runtime.call("json_parse", {"text": "[1]"})).data == {"data": [1]}


async def test_file_tools_use_the_workspace_of_the_configuration(tmp_path):
    for name in ("here", "there", "books"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    text = "workspace: {root: here, extra: there, read_only: ['${BOOKS}']}\nbuiltin: {files: {names: long}}"

    async with assemble_file(tmp_path, text, BOOKS=str(tmp_path / "books")) as runtime:
        assert "read_file" in {entry["function"]["name"] for entry in runtime.describe()}
        assert (await runtime.call("read_file", {"path": "a.txt"})).data["content"] == "here"
        for name in ("there", "books"):
            path = str(tmp_path / name / "a.txt")
            assert (await runtime.call("read_file", {"path": path})).data["content"] == name
        change = {"path": str(tmp_path / "there" / "a.txt"), "content": "new"}
        waits = await runtime.call("write_file", change)
        assert waits.waiting_for == "approval"
        assert (await runtime.approve(waits.call_id)).ok
        in_books = {"path": str(tmp_path / "books" / "a.txt"), "content": "new"}
        assert (await runtime.call("write_file", in_books)).code == "denied"  # without asking a person first
        assert (await runtime.call("read_file", {"path": str(tmp_path / "surehand.yaml")})).code == "denied"


async def test_the_default_workspace_is_the_folder_of_the_file(tmp_path):
    (tmp_path / "a.txt").write_text("hello")

    async with assemble_file(tmp_path, "builtin: {files: true}") as runtime:
        assert "hello" in (await runtime.call("read", {"file_path": "a.txt"})).text


async def test_folders_are_relative_to_the_file_and_variables_are_expanded_late(tmp_path):
    text = "builtin: {memory: {folder: '${NOTES}'}, web: {search: {engine: brave, apiKey: '${KEY}'}}}"

    async with assemble_file(tmp_path, text, KEY="abc", NOTES="notes") as runtime:
        assert runtime.catalogue.find("web_search") is not None
        waits = await runtime.call("memory_write", {"path": "a.md", "content": "hi"})
        assert (await runtime.approve(waits.call_id)).ok
    assert (tmp_path / "notes" / "a.md").read_text() == "hi"
    with pytest.raises(ConfigError, match="KEY, which is not set"):
        assemble_file(tmp_path, text, NOTES="notes")


async def test_settings_reach_the_tools(tmp_path):
    web = "{search: tavily, allow_private: [127.0.0.1], ports: any}"
    text = f"builtin: {{env: {{allow: LANG}}, web: {web}, todo: , goals: false}}"

    async with assemble_file(tmp_path, text) as runtime:
        names = {listing.name for listing in runtime.catalogue}
        assert {"get_env", "web_search", "todowrite"} <= names
        assert "set_goals" not in names


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("builtin: [filse]", "Unknown family of built-in tools 'filse'"),
        ("builtin: {memory: true}", "memory needs folder"),
        ("builtin: {files: {name: long}}", "did you mean 'names'"),
        ("builtin: {files: 3}", "files must be true"),
        ("builtin: {shell: disabled}", "shell must be true"),
        ("builtin: {shell: {unprotected: true, network: false}}", "network cannot be combined"),
        ("builtin: {web: {search: altavista}}", "Unknown search engine"),
        ("builtin: {web: {search: {engine: duckduckgo, key: x}}}", "duckduckgo has no setting key"),
        ("builtin: {web: {search: {key: x}}}", "search has no engine"),
        ("builtin: {web: {search: bing}}", "bing needs endpoint, the URL of the server"),
        ("builtin: {web: {search: {engine: bing, key: x}}}", "bing needs endpoint, the URL of the server"),
        ("tools: {webSearch: {provider: bing, apiKey: x}}", "write webSearch: {provider: bing, endpoint:"),
        ("builtin: {web: {search: searxng}}", "searxng needs url, the URL of the server"),
        ("builtin: {web: {search: {provider: searxng}}}", "searxng needs url, the URL of the server"),
        ("builtin: {env: {allow: [MY_API_KEY]}}", "MY_API_KEY"),
        ("builtin: {shell: {read: [/no/such/folder]}}", "does not exist"),
        ("builtin: {files: {names: middling}}", "short, long or both"),
        (
            "workspace: {root: ., extra: [nowhere]}\nbuiltin: [files]",
            "A folder of the workspace does not exist: nowhere",
        ),
    ],
)
def test_a_mistake_names_its_line(tmp_path, text, problem):
    with pytest.raises(ConfigError, match=problem) as raised:
        assemble_file(tmp_path, text)

    assert "surehand.yaml:1: " in str(raised.value)


@pytest.mark.parametrize("family", BUILTIN_SETTINGS)
def test_every_family_and_setting_is_documented(family):
    page = PAGE.read_text(encoding="utf-8")

    assert all(f"`{name}" in page for name in (family, *BUILTIN_SETTINGS[family]))
