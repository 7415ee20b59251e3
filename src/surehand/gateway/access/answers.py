"""AnswerPolicy: who may answer a call that waits. The call itself always runs with the rights of its requester."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, Protocol, TypeAlias, get_args

from surehand.core.errors import DefinitionError
from surehand.gateway.access.identity import Identity

WaitKind: TypeAlias = Literal["approval", "result", "input"]
REQUESTER = "requester"
_BY_PREFIXES = ("user:", "scope:")


class WaitingCall(Protocol):
    """A call that waits, as far as the rules look at it."""

    @property
    def tool(self) -> str: ...

    @property
    def user(self) -> str | None: ...

    @property
    def agent(self) -> str | None: ...

    @property
    def waiting_for(self) -> str: ...


@dataclass(frozen=True, slots=True)
class WaitingCallFields:
    """A `WaitingCall` by its fields, where there is no other object for it."""

    tool: str
    user: str | None
    agent: str | None
    waiting_for: str


@dataclass(frozen=True, slots=True)
class AnswerRule:
    """Who may answer the waits of some tools."""

    by: tuple[str, ...]
    """`requester`, `user:NAME` or `scope:NAME`: each of them may answer."""
    tools: tuple[str, ...] = ("*",)
    """Globs of the tools' names."""
    waiting_for: frozenset[str] = frozenset(get_args(WaitKind))

    def __post_init__(self) -> None:
        for field in ("by", "tools"):
            value = getattr(self, field)
            object.__setattr__(self, field, (value,) if isinstance(value, str) else tuple(value))
        object.__setattr__(self, "waiting_for", frozenset(self.waiting_for))
        for each in self.by:
            is_prefixed = each.startswith(_BY_PREFIXES) and not each.endswith(":")
            if each != REQUESTER and not is_prefixed:
                raise DefinitionError(f"by has {each!r}.", fix="use requester, user:NAME or scope:NAME.")
        if unknown := self.waiting_for - set(get_args(WaitKind)):
            raise DefinitionError(f"waiting_for has {min(unknown)!r}.", fix="use approval, result or input.")

    def applies_to(self, call: WaitingCall) -> bool:
        """Whether the rule is about a call."""
        return call.waiting_for in self.waiting_for and any(fnmatchcase(call.tool, glob) for glob in self.tools)

    def allows(self, identity: Identity, call: WaitingCall) -> bool:
        """Whether an identity may answer."""
        for each in self.by:
            kind, _, name = each.partition(":")
            is_requester = kind == REQUESTER and identity.user == call.user and _may_use(identity, call)
            is_named = kind == "user" and identity.user == name
            if is_requester or is_named or (kind == "scope" and name in identity.scopes):
                return True
        return False


def _may_use(identity: Identity, call: WaitingCall) -> bool:
    """Whether an identity might have made a call itself: a user may have a token for some tools only."""
    runs_agent = call.agent is not None and identity.may_use_agent(call.agent)
    return runs_agent or identity.may_use_tool(call.tool)


_REQUESTER_RULE = AnswerRule((REQUESTER,))


class AnswerPolicy:
    """Rules: the first that applies decides; without one, the requester may answer. The operator always may."""

    def __init__(self, rules: Iterable[AnswerRule] = ()) -> None:
        self.rules = tuple(rules)

    def may_answer(self, identity: Identity, call: WaitingCall) -> bool:
        """Whether an identity may answer a call that waits."""
        if identity.is_operator:
            return True
        rule = next((each for each in self.rules if each.applies_to(call)), _REQUESTER_RULE)
        return rule.allows(identity, call)

    def may_see(self, identity: Identity, call: WaitingCall) -> bool:
        """Whether an identity may see a call that waits: its own, one that it may answer, or all."""
        if not identity.may_use_tool(call.tool) and not self.may_answer(identity, call):
            return False
        return identity.sees_all_calls or identity.user == call.user or self.may_answer(identity, call)

    @property
    def has_other_answerers(self) -> bool:
        """Whether some rule lets others than the requester answer."""
        return any(each != REQUESTER for rule in self.rules for each in rule.by)
