"""Said: what a server says besides its tools, pinned as if it were a tool of a name that no tool can have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

INSTRUCTIONS_NAME, PROMPTS_NAME = "(instructions)", "(prompts)"
RESERVED_DEFINITION_NAMES = (INSTRUCTIONS_NAME, PROMPTS_NAME)


def instruction_definitions(instructions: str, prompts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One for the instructions and one for the prompts; that there are none is pinned as well."""
    named = {str(prompt["name"]): _pinned_prompt(prompt) for prompt in reversed([*prompts]) if prompt.get("name")}
    return [
        {"name": INSTRUCTIONS_NAME, **({"description": instructions} if instructions else {})},
        {"name": PROMPTS_NAME, **({"annotations": dict(sorted(named.items()))} if named else {})},
    ]


def _pinned_prompt(prompt: Mapping[str, Any]) -> dict[str, Any]:
    """What a prompt says; of two of a name the first counts."""
    kept = {part: prompt[part] for part in ("title", "description") if prompt.get(part) is not None}
    arguments = prompt.get("arguments")
    if isinstance(arguments, list | tuple) and arguments:
        kept["arguments"] = [_pinned_argument(each) for each in arguments if isinstance(each, Mapping)]
    return kept


def _pinned_argument(argument: Mapping[str, Any]) -> dict[str, Any]:
    parts = ("name", "title", "description", "required")
    return {part: argument[part] for part in parts if argument.get(part) is not None}


def instructions_from(definition: Mapping[str, Any]) -> str:
    """The instructions that were kept."""
    found = definition.get("description")
    return found if isinstance(found, str) else ""


def prompts_from(definition: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The prompts that were kept."""
    found = definition.get("annotations")
    named = found if isinstance(found, Mapping) else {}
    return [{**each, "name": name} for name, each in named.items() if isinstance(each, Mapping)]


def is_withdrawn(definition: Mapping[str, Any]) -> bool:
    """Whether it only says that there is nothing: who says no more is no danger, and may have been out of order."""
    return definition.keys() == {"name"} and definition["name"] in RESERVED_DEFINITION_NAMES
