"""Keys of an agent that other programs have and that can have no effect here: their files load, with a warning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from surehand.config.node import ConfigNode
from surehand.config.parsers import to_snake_case

IneffectiveKey: TypeAlias = tuple[ConfigNode, str]
"""A value, and why it has no effect."""
_LEFT_OUT_MIDDLEWARE = {
    "rag": "there is no such middleware. Give the agent tools that search",
    "guardrails": "there is no such middleware, and nothing is checked in its place. Write rules in `policy`",
}


def is_left_out_middleware(node: ConfigNode) -> bool:
    """Whether an entry of `middleware` names one that only other programs have."""
    return isinstance(node.value, str) and node.value.strip() in _LEFT_OUT_MIDDLEWARE


def find_ineffective_keys(agent: ConfigNode) -> tuple[str, ...]:
    """Warnings about an agent of the file, each with its line."""
    return tuple(str(node.error(f"{_name(node)} has no effect: {reason}.")) for node, reason in _find(agent))


def _find(agent: ConfigNode) -> Iterator[IneffectiveKey]:
    for key, node in _entries(agent):
        match key:
            case "version":
                yield node, "it only says which version of the agent this is"
            case "model" | "approver":
                for model in node.items() if isinstance(node.value, list) else [node]:
                    yield from _find_in_model(model)
            case "consciousness":
                yield from _find_in_consciousness(node)
            case "loop":
                yield from _find_in_loop(node)
            case "middleware" if isinstance(node.value, list):
                for each in filter(is_left_out_middleware, node.items()):
                    yield each, _LEFT_OUT_MIDDLEWARE[each.value.strip()]


def _find_in_model(model: ConfigNode) -> Iterator[IneffectiveKey]:
    for key, node in _entries(model):
        if key == "reasoning":
            for name, entry in _entries(node):
                if name == "summary":
                    yield entry, "what a model reasons is not shown"


def _find_in_consciousness(consciousness: ConfigNode) -> Iterator[IneffectiveKey]:
    for key, node in _entries(consciousness):
        if key == "min_recent_cycles":
            yield node, "recent steps stay whole as long as they fit into max_tokens"
        elif key == "compaction_strategy":
            yield node, "there is one way: old results are cut first, then older steps become one line for each call"


def _find_in_loop(loop: ConfigNode) -> Iterator[IneffectiveKey]:
    for key, node in _entries(loop):
        if key == "tool_choice" and node.value not in ("auto", "none"):
            yield node, "the model decides what it calls, as with auto"


def _entries(node: ConfigNode) -> Iterator[tuple[str, ConfigNode]]:
    if isinstance(node.value, dict):
        for key, entry in node.entries().items():
            yield to_snake_case(key), entry


def _name(node: ConfigNode) -> str:
    """The key of a value, or the value of an entry of a list."""
    return node.key if isinstance(node.key_path[-1], str) else str(node.value).strip()
