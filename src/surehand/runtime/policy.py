"""Policy: ordered rules on tool names, effects and arguments; each allows a call, denies it or asks a person.

The stage `approve` applies them; the runtime warns about rules that match no tool.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias, cast, get_args

from surehand.catalogue.listing import Listing
from surehand.core.argument_errors import short_repr
from surehand.core.errors import DefinitionError
from surehand.core.facets import EFFECTS
from surehand.core.names import nearest_names

Decision: TypeAlias = Literal["allow", "ask", "deny"]
_EVERY_TOOL = ("*",)
_RULE_KEYS = ("tools", "effects", "arguments", "decision", "reason")
_POLICY_FIX = "use Policy.default(), or a list of rules such as {'effects': ['write'], 'decision': 'ask'}."


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. An allow must cover all of a tool's effects; ask and deny match any of them."""

    decision: Decision
    tools: tuple[str, ...] = _EVERY_TOOL
    effects: frozenset[str] = frozenset()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Argument name to value, glob, list of these, or a function of the value."""
    reason: str = ""

    @classmethod
    def from_mapping(cls, rule: Rule | Mapping[str, Any]) -> Rule:
        """Build a rule from a mapping; raises for a mistake, because a rule that never matches protects nothing."""
        if isinstance(rule, Rule):
            return rule
        if not isinstance(rule, Mapping):
            raise DefinitionError(f"{short_repr(rule)} is not a policy rule.", fix=_POLICY_FIX)
        for key in rule:
            if key not in _RULE_KEYS:
                nearest = nearest_names(key, _RULE_KEYS, 1)
                hint = nearest[0] if nearest else f"some of {', '.join(_RULE_KEYS)}"
                raise DefinitionError(f"A policy rule has no key {key!r}.", fix=f"use {hint}.")
        decision = rule.get("decision")
        if decision not in get_args(Decision):
            raise DefinitionError(f"{decision!r} is not a policy decision.", fix="use allow, ask or deny.")
        effects = frozenset(_as_list(rule.get("effects", ())))
        if unknown := effects - EFFECTS:
            known = ", ".join(sorted(EFFECTS))
            raise DefinitionError(f"Unknown effects: {', '.join(sorted(unknown))}.", fix=f"use some of {known}.")
        tools = tuple(_as_list(rule.get("tools", "*")))
        return cls(cast(Decision, decision), tools, effects, rule.get("arguments", {}), rule.get("reason", ""))

    def matches_tool(self, listing: Listing) -> bool:
        """Whether the rule matches the tool's effects and any of its names."""
        if not (self.tools == _EVERY_TOOL or any(self.matches_name(listing, glob) for glob in self.tools)):
            return False
        effects = listing.policy_effects
        if not self.effects:
            return True
        return effects <= self.effects if self.decision == "allow" else bool(effects & self.effects)

    def matches_name(self, listing: Listing, glob: str) -> bool:
        """Whether a glob of the rule matches any name of the tool.

        An ask or deny also covers a tool that was given another name because its own was taken. An allow does not: it
        is meant for the tool that has the name.
        """
        names = listing.names if self.decision == "allow" else listing.names | {listing.wanted_name}
        return any(fnmatchcase(name, glob) for name in names)

    def matches_arguments(self, arguments: Mapping[str, Any]) -> bool:
        """Whether every argument that the rule names is present and matches."""
        return all(
            name in arguments and _matches_value(arguments[name], pattern) for name, pattern in self.arguments.items()
        )


def _as_list(value: str | Iterable[str]) -> Iterable[str]:
    return [value] if isinstance(value, str) else value


def _matches_value(value: Any, pattern: Any) -> bool:
    """Whether a value matches a value, a glob, a list of these or a function."""
    if isinstance(value, Enum):  # a rule is written with the values that a model sends
        value = value.value
    elif isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(pattern, Callable):  # type: ignore[arg-type]  # mypy takes it for the generic type
        return bool(pattern(value))
    if isinstance(pattern, (list, tuple, set, frozenset)):
        return any(_matches_value(value, alternative) for alternative in pattern)
    if isinstance(pattern, str):
        return fnmatchcase(str(value), pattern)
    return bool(value == pattern)


@dataclass(frozen=True, slots=True)
class UnmatchedRule:
    """A rule of a policy that matches no tool by some or all of its names."""

    number: int
    """Its place in the policy, counted from 1."""
    rule: Rule
    globs: tuple[str, ...]
    """The names and globs without a tool; none if only the effects do not match."""

    def describe(self, known_names: Iterable[str]) -> str:
        """What to tell the developer."""
        position = f"Rule {self.number} of the policy ({self.rule.decision})"
        if not self.globs:
            effects = ", ".join(sorted(self.rule.effects))
            return f"{position} matches no tool: none that it names has the effects {effects}."
        nearest = nearest_names(self.globs[0], known_names, 1)
        suggestion = f" Did you mean {nearest[0]!r}?" if nearest else ""
        return f"{position} names {' and '.join(map(repr, self.globs))}, and there is no such tool.{suggestion}"


class Policy:
    """Ordered rules: the first that matches decides; a call that none matches is allowed.

    Args:
        trust_annotations: whether a tool that its MCP server marks read-only counts as `read`, or as `write`.
    """

    def __init__(self, rules: Iterable[Rule | Mapping[str, Any]] = (), *, trust_annotations: bool = True) -> None:
        if isinstance(rules, str | Mapping) or not isinstance(rules, Iterable):
            raise DefinitionError(f"{short_repr(rules)} is not a list of policy rules.", fix=_POLICY_FIX)
        self.rules = tuple(Rule.from_mapping(rule) for rule in rules)
        self.trust_annotations = trust_annotations

    @classmethod
    def default(cls, *, trust_annotations: bool = True) -> Policy:
        """The policy that asks before every call that writes, executes or uses the network."""
        rules = [{"effects": ["write", "execute", "network"], "decision": "ask"}]
        return cls(rules, trust_annotations=trust_annotations)

    def rules_for(self, listing: Listing) -> tuple[Rule, ...]:
        """The rules that can apply to a tool: up to the first one without a condition on arguments."""
        matching: list[Rule] = []
        if not self.trust_annotations:
            listing = listing.without_annotations()
        for rule in self.rules:
            if rule.matches_tool(listing):
                matching.append(rule)
                if not rule.arguments:
                    break
        return tuple(matching)

    def always_denies(self, listing: Listing) -> bool:
        """Whether every call of a tool is denied, whatever its arguments."""
        rules = self.rules_for(listing)
        return bool(rules) and all(rule.decision == "deny" for rule in rules) and not rules[-1].arguments

    def unmatched_rules(self, listings: Collection[Listing]) -> list[UnmatchedRule]:
        """The rules that name tools of which none exists, or none with the effects that the rule names."""
        if not self.trust_annotations:
            listings = [listing.without_annotations() for listing in listings]
        unmatched: list[UnmatchedRule] = []
        for number, rule in enumerate(self.rules, 1):
            if rule.tools == _EVERY_TOOL:
                continue
            missing = [glob for glob in rule.tools if not any(rule.matches_name(listing, glob) for listing in listings)]
            if missing or not any(map(rule.matches_tool, listings)):
                unmatched.append(UnmatchedRule(number, rule, tuple(missing)))
        return unmatched

    def decide(self, listing: Listing, arguments: Mapping[str, Any]) -> Rule:
        """The rule that decides a call."""
        return first_matching_rule(self.rules_for(listing), {**listing.tool.defaults, **arguments})


class ActivePolicy:
    """The policy of a runtime, which may be replaced while it runs."""

    def __init__(self, policy: Policy, *, on_change: Callable[[], None]) -> None:
        self.current = policy
        self._on_change = on_change

    def replace(self, policy: Policy) -> None:
        """Use another policy for calls that start from now on."""
        self.current = policy
        self._on_change()


ALLOW_RULE = Rule("allow")


def first_matching_rule(rules: tuple[Rule, ...], arguments: Mapping[str, Any]) -> Rule:
    """The first of a tool's rules that matches the arguments; a rule that allows if there is none."""
    return next((rule for rule in rules if rule.matches_arguments(arguments)), ALLOW_RULE)
