"""Every built-in tool is described well enough for a model, and can be described to every model API."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from surehand import InvalidArguments, Runtime, Tool, files, shell
from surehand.config.builtin_section import BUILTIN_SETTINGS

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time

ROOT = Path(__file__).parents[2]


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, list[Tool[..., Any]]]:
    """The tools of every factory, as the reference page lists them."""
    monkeypatch.syspath_prepend(str(ROOT))
    sys.modules.pop("docs", None)
    from docs import tools

    return tools.catalogue(tmp_path)


@pytest.fixture
def every(catalogue: dict[str, list[Tool[..., Any]]]) -> list[Tool[..., Any]]:
    return [tool for tools in catalogue.values() for tool in tools]


def test_every_factory_is_in_the_reference(catalogue):
    assert sorted(catalogue) == sorted(BUILTIN_SETTINGS)


def test_names_are_given_once(every):
    names = [tool.name for tool in every]

    assert sorted(names) == sorted(set(names))


def test_every_description_has_a_useful_length(every):
    told = {tool.name: " ".join(tool.description.split()) for tool in every}

    assert {name: text for name, text in told.items() if not 40 <= len(text) <= 200} == {}


RESPONSE_WORDS = re.compile(r"\b(gives|returns|such as|for example|e\.g\.)|[{}]", re.IGNORECASE)


def test_descriptions_hold_no_response_structures_and_no_examples(every):
    assert {tool.name: tool.description for tool in every if RESPONSE_WORDS.search(tool.description)} == {}


def test_optional_parameters_are_described_without_null(every):
    assert [tool.name for tool in every if '"null"' in json.dumps(tool.schema)] == []


def test_limits_on_lengths_are_checked_and_not_described(every):
    lengths = re.compile(r"(min|max)(Length|Items)")
    described = {tool.name for tool in every if lengths.search(json.dumps(tool.schema))}
    assert described <= {"web_search"}  # its schema is written by hand, and checks nothing that it does not say

    with pytest.raises(InvalidArguments, match="at most 200 characters"):
        next(tool for tool in every if tool.name == "get_env").validate_arguments({"key": "X" * 201})


CHARACTERS_PER_TOKEN = 3.75
"""Of these descriptions as JSON in o200k_base: 3.7 to 3.8 were measured. Tests cannot fetch the encoding itself."""


async def described_tokens(*sources: Any) -> float:
    async with Runtime(*sources) as runtime:
        return len(json.dumps(list(runtime.describe("anthropic")))) / CHARACTERS_PER_TOKEN


async def test_the_built_in_set_stays_under_7000_tokens(catalogue, tmp_path):
    catalogue["files"] = files(tmp_path)

    assert await described_tokens(*catalogue.values()) < 7000


@pytest.mark.parametrize("names", ["short", "long"])
async def test_the_coding_set_stays_under_3000_tokens(tmp_path, names):
    assert await described_tokens(files(tmp_path, names=names), shell(tmp_path)) < 3000


def test_every_parameter_is_described_at_any_depth(every):
    assert [f"{tool.name}: {path}" for tool in every for path in undescribed(tool.schema, tool.schema, "")] == []


def undescribed(schema: Mapping[str, Any], root: Mapping[str, Any], path: str) -> Iterator[str]:
    schema = {**root["$defs"][schema["$ref"].rpartition("/")[2]], **schema} if "$ref" in schema else schema
    for name, field in schema.get("properties", {}).items():
        if not field.get("description"):
            yield f"{path}{name}"
        yield from undescribed(field, root, f"{path}{name}.")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from undescribed(schema[word], root, f"{path}[].")
    for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from undescribed(branch, root, path)


CHANGE_ONLY_THEIR_CALLERS_NOTES = {
    "set_goals", "delete_goals", "set_memories", "delete_memories", "set_plans", "delete_plans",
    "todowrite", "peek_inbox", "enter_space", "leave_space",
}  # fmt: skip
"""Tools that declare no effects on purpose: `OWN_NOTES_OPTIONS` says why."""


def test_every_tool_declares_its_effects_and_is_not_visible(every):
    assert {tool.name for tool in every if not tool.effects} == CHANGE_ONLY_THEIR_CALLERS_NOTES
    assert [tool.name for tool in every if tool.category == "custom"] == []
    assert [tool.name for tool in every if tool.visible] == []


CATEGORIES = {
    "system": "current_time sleep get_env set_env session_archive_read spawn_task reply",
    "file": "read_file write_file list_files delete_file move_file get_file_info edit_file grep_files",
    "network": "http_get http_post http_request web_search",
    "data": "json_parse json_stringify base64_encode base64_decode task_list task_replay",
    "memory": "memory_list memory_read memory_write memory_patch memory_append",
}


@pytest.mark.parametrize("category", CATEGORIES)
def test_tools_are_in_the_category_that_their_table_names(every, category):
    by_name = {tool.name: tool.category for tool in every}

    assert {name: by_name[name] for name in CATEGORIES[category].split()} == dict.fromkeys(
        CATEGORIES[category].split(), category
    )


def test_every_example_has_valid_arguments(every):
    taken = [tool.validate_arguments(example) for tool in every for example in tool.presentation.examples]

    assert len(taken) > 4


@pytest.mark.parametrize("format", ["openai", "responses", "anthropic", "gemini", "mcp"])
async def test_every_tool_can_be_described_to_every_model_api(every, format):
    async with Runtime(*every) as runtime:
        described = runtime.describe(format)

    assert described.left_out == {}
    assert len(described) == len([tool for tool in every if tool.presentation.listed and tool.audience != "user"])


TOOLSETS = {
    "main_agent_tools": {"current_time", "memory_list", "memory_read", "task_list", "task_replay",
                         "session_archive_read", "spawn_task", "reply"},
    "reflection_tools": {"memory_read", "memory_write", "memory_patch", "memory_append"},
    "session_tools": {"session_archive_read"},
}  # fmt: skip


@pytest.mark.parametrize("toolset", TOOLSETS)
async def test_a_toolset_shows_its_tools_and_no_others(every, toolset):
    async with Runtime(*every) as runtime:
        described = runtime.describe("anthropic", toolset=toolset)

    assert {entry["name"] for entry in described} == TOOLSETS[toolset]


async def test_the_tools_of_a_task_leave_out_those_of_the_main_agent(catalogue, every):
    async with Runtime(*every) as runtime:
        described = {entry["name"] for entry in runtime.describe("anthropic", toolset="all_task_tools")}

    groups = ("clock", "env", "data", "memory", "tasks")
    assert {tool.name for name in groups for tool in catalogue[name]} <= described
    for name in ("files", "web"):
        assert {tool.name for tool in catalogue[name]} & described
    assert not {"spawn_task", "reply", "resume_task", "task", "send_message"} & described


def test_importing_the_package_loads_no_factory():
    code = "import sys, surehand.builtin; print([n for n in sys.modules if n.startswith('surehand.builtin.')])"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert printed.strip() == "[]"
