"""The model of an agent: `provider:name`, a mapping, or a list of which the first that can be used counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from surehand.config.node import ConfigNode
from surehand.config.parsers import (
    expand_variables,
    known_entries,
    read_duration,
    read_mapping,
    read_number,
    read_positive_integer,
    read_text,
    referenced_variables,
    substitute_variables,
)
from surehand.config.scripted_model import ScriptedModelEntry, parse_scripted_model

_EFFORTS = ("minimal", "low", "medium", "high")


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """The model of an agent, as written in the file."""

    node: ConfigNode
    name: str
    """`provider:name`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options whose values are plain, by the names of the function that chooses a model."""
    variables: Mapping[str, ConfigNode] = field(default_factory=dict)
    """Options that may refer to variables, such as the API key: they are expanded when the model is built."""
    price: Mapping[str, float] | None = None
    """Dollars for a million tokens: `input`, `output` and perhaps `cached_input`."""

    def expand_name(self, environment: Mapping[str, str]) -> str:
        """`provider:name`, with the name from a variable if it refers to one."""
        return substitute_variables(self.node, self.name, environment)

    def has_variables(self, environment: Mapping[str, str]) -> bool:
        """Whether all variables are set that the name, the key and the address refer to."""
        texts = [self.name, *(read_text(node) for node in self.variables.values())]
        return all(environment.get(name) for text in texts for name in referenced_variables(text))

    def expand(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The options that may refer to variables, with their values."""
        return {name: expand_variables(node, environment) for name, node in self.variables.items()}


ModelChoice: TypeAlias = ModelEntry | ScriptedModelEntry


def _read_effort(node: ConfigNode) -> str | None:
    """How much a model reasons: a word, or `{enabled, effort, summary}`."""
    effort = node
    if isinstance(node.value, dict):
        entries = known_entries(node, ("enabled", "effort"), ignored=("summary",))
        if "enabled" in entries and entries["enabled"].value is False:
            return None
        if "effort" not in entries:
            return "medium"
        effort = entries["effort"]
    if effort.value not in _EFFORTS:
        raise effort.error(f"{effort.key} has an unknown value.", f"use {', '.join(_EFFORTS)}.")
    return str(effort.value)


def _read_mode(node: ConfigNode) -> str:
    if node.value not in ("tools", "json"):
        raise node.error("mode must be tools or json.", "json is for models without native tools.")
    return str(node.value)


_MODEL_PARSERS: Mapping[str, Callable[[ConfigNode], Any]] = {
    "mode": _read_mode,
    "temperature": lambda node: read_number(node, may_be_zero=True),
    "max_tokens": read_positive_integer,
    "reasoning": _read_effort,
    "idle_timeout": read_duration,
    "options": read_mapping,
}
_VARIABLE_KEYS = ("base_url", "api_key")


def parse_models(node: ConfigNode) -> tuple[ModelChoice, ...]:
    """Parse one model, or a list of which the first that can be used counts."""
    if not isinstance(node.value, list):
        return (_parse_choice(node),)
    models = tuple(_parse_choice(each) for each in node.items())
    if not models:
        raise node.error("The list of models is empty.", 'write model: ["openai:gpt-5-mini"].')
    return models


def _parse_choice(node: ConfigNode) -> ModelChoice:
    if isinstance(node.value, dict) and "scripted" in node.value:
        return parse_scripted_model(known_entries(node, ("scripted",))["scripted"])
    return _parse_model(node)


def _parse_model(node: ConfigNode) -> ModelEntry:
    """Parse `provider:name`, or `{provider, model, base_url, api_key, mode, temperature, ...}`."""
    if isinstance(node.value, str):
        return ModelEntry(node, read_text(node).strip())
    entries = known_entries(
        node, ("provider", "model", "price", *_VARIABLE_KEYS, *_MODEL_PARSERS), aliases={"name": "model"}
    )
    if "model" not in entries:
        raise node.error("The model has no name.", "write model: {provider: openai, model: gpt-5-mini}.")
    name = read_text(entries["model"]).strip()
    if "provider" in entries:
        name = f"{read_text(entries['provider']).strip()}:{name}"
    for key in _VARIABLE_KEYS:
        if key in entries:
            read_text(entries[key])
    return ModelEntry(
        node,
        name,
        options={key: _MODEL_PARSERS[key](entries[key]) for key in _MODEL_PARSERS if key in entries},
        variables={key: entries[key] for key in _VARIABLE_KEYS if key in entries},
        price=_parse_price(entries["price"]) if "price" in entries else None,
    )


def _parse_price(node: ConfigNode) -> dict[str, float]:
    entries = known_entries(node, ("input", "output", "cached_input"))
    if not {"input", "output"} <= entries.keys():
        raise node.error("A price needs input and output.", "write price: {input: 0.25, output: 2}.")
    return {name: read_number(entry, may_be_zero=True) for name, entry in entries.items()}
