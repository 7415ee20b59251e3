"""Instructions and prompts of a provider as definitions under reserved names, so that they are pinned like tools.

Used by the MCP provider; other providers have no such texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

INSTRUCTIONS_NAME = "(instructions)"
PROMPTS_NAME = "(prompts)"
RESERVED_DEFINITION_NAMES = (INSTRUCTIONS_NAME, PROMPTS_NAME)
"""Names that no tool can have, because of the brackets."""


def instruction_definitions(instructions: str, prompts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One definition for the instructions and one for all prompts; their absence is pinned as well."""
    # Reversed, because of two prompts with one name the first counts.
    by_name = {str(prompt["name"]): _pinned_prompt(prompt) for prompt in reversed([*prompts]) if prompt.get("name")}
    instructions_definition: dict[str, Any] = {"name": INSTRUCTIONS_NAME}
    if instructions:
        instructions_definition["description"] = instructions
    prompts_definition: dict[str, Any] = {"name": PROMPTS_NAME}
    if by_name:
        prompts_definition["annotations"] = dict(sorted(by_name.items()))
    return [instructions_definition, prompts_definition]


def _pinned_prompt(prompt: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a prompt that a model reads."""
    fields = {field: prompt[field] for field in ("title", "description") if prompt.get(field) is not None}
    arguments = prompt.get("arguments")
    if isinstance(arguments, list | tuple) and arguments:
        fields["arguments"] = [_pinned_argument(each) for each in arguments if isinstance(each, Mapping)]
    return fields


def _pinned_argument(argument: Mapping[str, Any]) -> dict[str, Any]:
    fields = ("name", "title", "description", "required")
    return {field: argument[field] for field in fields if argument.get(field) is not None}


def instructions_from(definition: Mapping[str, Any]) -> str:
    """The instructions in a definition of `instruction_definitions`."""
    description = definition.get("description")
    return description if isinstance(description, str) else ""


def prompts_from(definition: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The prompts in a definition of `instruction_definitions`."""
    by_name = definition.get("annotations")
    if not isinstance(by_name, Mapping):
        return []
    return [{**prompt, "name": name} for name, prompt in by_name.items() if isinstance(prompt, Mapping)]


def is_withdrawn(definition: Mapping[str, Any]) -> bool:
    """Whether it is the definition of absent instructions or prompts. Their absence is harmless, so it is no change."""
    return definition.keys() == {"name"} and definition["name"] in RESERVED_DEFINITION_NAMES
