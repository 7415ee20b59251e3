"""A scripted model in an agent's entry: `model: {scripted: [{when: ..., answers: [...]}]}`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from surehand.config.node import ConfigNode
from surehand.config.parsers import known_entries, read_text

ScriptedAnswer: TypeAlias = str | tuple[tuple[str, dict[str, Any]], ...]
"""A text, or calls as (tool, arguments)."""
_EXAMPLE = "write scripted: [{when: hello, answers: [{tool: current_time}, It is ${result}.]}]."


@dataclass(frozen=True, slots=True)
class ScriptedRuleEntry:
    """What the model answers, one request after another, to messages that match."""

    when: str
    """A regular expression; empty for any message."""
    answers: tuple[ScriptedAnswer, ...]


@dataclass(frozen=True, slots=True)
class ScriptedModelEntry:
    """A model that answers by rules; the first one that matches the user's last message applies."""

    node: ConfigNode
    rules: tuple[ScriptedRuleEntry, ...]


def parse_scripted_model(node: ConfigNode) -> ScriptedModelEntry:
    """Parse the rules."""
    rules = tuple(_parse_rule(each) for each in node.items(_EXAMPLE))
    if not rules:
        raise node.error("The scripted model has no rules.", _EXAMPLE)
    return ScriptedModelEntry(node, rules)


def _parse_rule(node: ConfigNode) -> ScriptedRuleEntry:
    entries = known_entries(node, ("when", "answers"))
    if "answers" not in entries:
        raise node.error("A rule has no answers.", _EXAMPLE)
    answers = tuple(_parse_answer(each) for each in entries["answers"].items(_EXAMPLE))
    if not answers:
        raise entries["answers"].error("A rule needs at least one answer.", _EXAMPLE)
    return ScriptedRuleEntry(_parse_pattern(entries["when"]) if "when" in entries else "", answers)


def _parse_pattern(node: ConfigNode) -> str:
    pattern = read_text(node)
    try:
        re.compile(pattern)
    except re.error as error:
        raise node.error(
            f"{pattern!r} is not a regular expression: {error}.", "write words, as in order|buy."
        ) from None
    return pattern


def _parse_answer(node: ConfigNode) -> ScriptedAnswer:
    if isinstance(node.value, str):
        return node.value
    calls = node.items() if isinstance(node.value, list) else [node]
    return tuple(_parse_call(each) for each in calls)


def _parse_call(node: ConfigNode) -> tuple[str, dict[str, Any]]:
    entries = known_entries(node, ("tool", "arguments"))
    if "tool" not in entries:
        raise node.error("An answer is a text, or a call with its tool.", "write {tool: current_time, arguments: {}}.")
    arguments = (
        {name: each.value for name, each in entries["arguments"].entries().items()} if "arguments" in entries else {}
    )
    return read_text(entries["tool"]), arguments
