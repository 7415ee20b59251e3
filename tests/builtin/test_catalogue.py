"""Every built-in tool is described so that a model can use it rightly, and any model API can be shown it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from surehand import Runtime, Tool
from surehand.config.builtin_section import BUILTIN_SETTINGS

pytestmark = pytest.mark.timeout(30)  # some of these have much to do, and a busy machine takes its time

ROOT = Path(__file__).parents[2]


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, list[Tool[..., Any]]]:
    """What the reference shows: the tools of every factory."""
    monkeypatch.syspath_prepend(str(ROOT))
    sys.modules.pop("docs", None)
    from docs import tools

    return tools.catalogue(tmp_path)


@pytest.fixture
def every(catalogue: dict[str, list[Tool[..., Any]]]) -> list[Tool[..., Any]]:
    return [tool for tools in catalogue.values() for tool in tools]


def test_every_factory_is_in_the_reference(catalogue):
    others = {"TaskLog", "Workspace"}

    assert sorted(catalogue) == sorted(set(BUILTIN_SETTINGS) - others)


def test_names_are_given_once(every):
    names = [tool.name for tool in every]

    assert sorted(names) == sorted(set(names))


def test_every_description_is_short_and_tells_enough(every):
    told = {tool.name: " ".join(tool.description.split()) for tool in every}

    assert {name: text for name, text in told.items() if not 40 <= len(text) <= 200} == {}


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


def test_every_tool_says_what_it_does_to_the_world_and_shows_in_no_space(every):
    assert [tool.name for tool in every if not tool.effects] == []
    assert [tool.name for tool in every if tool.category == "custom"] == []
    assert [tool.name for tool in every if tool.visible] == []


def test_every_example_is_a_call_that_would_be_taken(every):
    taken = [tool.validate_arguments(example) for tool in every for example in tool.presentation.examples]

    assert len(taken) > 20


@pytest.mark.parametrize("format", ["openai", "responses", "anthropic", "gemini", "mcp"])
async def test_every_tool_is_shown_to_every_model_api(every, format):
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


async def test_the_tools_of_a_task_are_all_but_those_that_speak_for_the_main_agent(catalogue, every):
    async with Runtime(*every) as runtime:
        described = {entry["name"] for entry in runtime.describe("anthropic", toolset="all_task_tools")}

    groups = ("clock", "env", "data", "memory", "tasks")
    assert {tool.name for name in groups for tool in catalogue[name]} <= described
    for name in ("files", "web"):
        assert {tool.name for tool in catalogue[name]} & described
    assert not {"spawn_task", "reply", "resume_task", "task", "send_message"} & described


def test_no_factory_is_loaded_before_it_is_asked_for():
    code = "import sys, surehand.builtin; print([n for n in sys.modules if n.startswith('surehand.builtin.')])"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert printed.strip() == "[]"
