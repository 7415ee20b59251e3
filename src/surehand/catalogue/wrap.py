"""`prefixed`, `filtered` and `renamed`: a provider or a list of tools, with some left out or under other names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, overload

from surehand.core.call import Call, Principal
from surehand.core.context import Context
from surehand.core.description import DescriptionSource
from surehand.core.errors import DefinitionError
from surehand.core.names import is_legal_name, nearest_names, qualified_name
from surehand.core.provider import Provider
from surehand.core.provider_abilities import ProviderAbilities, find_abilities
from surehand.core.tool import Tool

AnyTool: TypeAlias = Tool[..., Any]
ReshapeTools: TypeAlias = Callable[[Sequence[AnyTool]], list[AnyTool]]
FILTERED_OUT_REASON = "it is filtered out"
ToolFilter: TypeAlias = str | Iterable[str] | Callable[[AnyTool], bool]


class FilteredTools(list[AnyTool]):
    """The tools that were kept of a list; the runtime refuses those left out by name, with the reason."""

    def __init__(self, kept: Iterable[AnyTool], left_out: Mapping[str, str]) -> None:
        super().__init__(kept)
        self.left_out = dict(left_out)
        """Why tools were not kept, by name."""


@dataclass(eq=False)
class WrappedProvider(Provider):
    """A provider whose tools are those of another one, changed by `reshape`.

    It supports what the other one supports. Where a tool is named, the inner provider gets the name that it knows.
    """

    inner: Provider
    reshape: ReshapeTools
    original_name: Callable[[str], str]
    """Maps the name of a tool to its name in the inner provider."""
    inner_abilities: ProviderAbilities = field(init=False)
    left_out: frozenset[str] = field(default=frozenset(), init=False)
    """Tools of the inner provider that `reshape` dropped, by their names there."""
    new_names: Mapping[str, str] = field(default_factory=dict, init=False)
    """The names of the tools by those that the inner provider knows, once `tools` was called."""

    def __post_init__(self) -> None:
        self.inner_abilities = find_abilities(self.inner)
        for name in _COPIED_SETTINGS:
            setattr(self, name, getattr(self.inner, name))

    # For attributes of a provider's own class, such as `address`: Python calls this only for names not found here.
    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not set yet, as while the object is being copied
            raise AttributeError(name)
        return getattr(self.inner, name)

    def abilities(self) -> ProviderAbilities:
        """What the inner provider supports, with this one in its place where a tool is named."""
        inner = self.inner_abilities
        return replace(
            inner,
            selective=self,
            searchable=None if inner.searchable is None else self,
            instructive=None if inner.instructive is None else self,
            per_user=None if inner.per_user is None else self,
            call_checker=self,
            cancellable=self,
            resumable=self,
        )

    async def tools(self) -> list[AnyTool]:
        """The tools of the inner provider, reshaped."""
        tools = await self.inner.tools()
        kept = self.reshape(tools)
        self.new_names = {self.original_name(tool.name): tool.name for tool in kept}
        self.left_out = frozenset(tool.name for tool in tools if tool.name not in self.new_names)
        if self.inner_abilities.searchable is None:
            return kept
        # The tools that search for others name one another in their descriptions.
        return [tool.evolve(description_source=_RenamedMentions(tool.description_source, self)) for tool in kept]

    def rename_mentions(self, text: str) -> str:
        """A text of the inner provider, with the new names of the tools that it mentions by their full names."""
        start = qualified_name(self.namespace, "")

        def new_name(match: re.Match[str]) -> str:
            return start + self.new_names.get(match[1], match[1])

        return re.sub(rf"\b{re.escape(start)}([\w-]+)", new_name, text) if start in text else text

    async def invoke(self, call: Call, context: Context) -> Any:
        return await self.inner.invoke(self._with_original_name(call), context)

    def refusal_reason(self, tool: str) -> str | None:
        original = self.original_name(tool)
        if original in self.left_out:
            return FILTERED_OUT_REASON
        selective = self.inner_abilities.selective
        return None if selective is None else selective.refusal_reason(original)

    def looked_up_tools(self, principal: Principal) -> list[str]:
        searchable = self.inner_abilities.searchable
        names = () if searchable is None else searchable.looked_up_tools(principal)
        return [self.new_names[name] for name in names if name in self.new_names]

    def instructions(self, principal: Principal) -> str:
        instructive = self.inner_abilities.instructive
        return "" if instructive is None else self.rename_mentions(instructive.instructions(principal))

    def has_tools_for(self, principal: Principal) -> bool:
        per_user = self.inner_abilities.per_user
        return per_user is None or per_user.has_tools_for(principal)

    def is_hidden_from(self, principal: Principal, tool: str) -> bool:
        per_user = self.inner_abilities.per_user
        return per_user is not None and per_user.is_hidden_from(principal, self.original_name(tool))

    async def check_call(self, call: Call) -> None:
        if (call_checker := self.inner_abilities.call_checker) is not None:
            await call_checker.check_call(self._with_original_name(call))

    async def cancel(self, call: Call, reason: str) -> None:
        if (cancellable := self.inner_abilities.cancellable) is not None:
            await cancellable.cancel(self._with_original_name(call), reason)

    async def resume(self, call: Call, state: Any, answer: Any, context: Context) -> Any:
        if (resumable := self.inner_abilities.resumable) is None:
            return answer
        return await resumable.resume(self._with_original_name(call), state, answer, context)

    def _with_original_name(self, call: Call) -> Call:
        return replace(call, tool=self.original_name(call.tool))


class _RenamedMentions(DescriptionSource):
    """The description of a tool that may mention others, which the wrapper gave new names."""

    def __init__(self, inner: DescriptionSource, wrapper: WrappedProvider) -> None:
        super().__init__(None, None, "")
        self._inner = inner
        self._wrapper = wrapper

    def render(self, workspace: str | None = None) -> str:
        return self._wrapper.rename_mentions(self._inner.render(workspace))


_COPIED_SETTINGS = ("kind", "namespace", "timeout", "queue", "cache", "required", "on_conflict", "traits")


@overload
def prefixed(source: Provider, prefix: str) -> Provider: ...
@overload
def prefixed(source: Iterable[AnyTool], prefix: str) -> list[AnyTool]: ...
def prefixed(source: Provider | Iterable[AnyTool], prefix: str) -> Provider | list[AnyTool]:
    """The same tools, with `prefix_` before their names and aliases."""
    if not is_legal_name(prefix):
        raise DefinitionError(
            f"{prefix!r} is not a legal prefix of tool names.", fix="use letters, digits, `_` and `-`."
        )
    start = f"{prefix}_"

    def reshape(tools: Sequence[AnyTool]) -> list[AnyTool]:
        named = _rename_tools(tools, {tool.name: start + tool.name for tool in tools})
        return [_with_aliases(tool, tuple(start + alias for alias in tool.aliases)) for tool in named]

    return _wrap_source(source, reshape, lambda name: name.removeprefix(start))


@overload
def filtered(source: Provider, allow: ToolFilter = "*", deny: str | Iterable[str] = ()) -> Provider: ...
@overload
def filtered(source: Iterable[AnyTool], allow: ToolFilter = "*", deny: str | Iterable[str] = ()) -> list[AnyTool]: ...
def filtered(
    source: Provider | Iterable[AnyTool], allow: ToolFilter = ("*",), deny: str | Iterable[str] = ()
) -> Provider | list[AnyTool]:
    """The tools whose names match a glob of `allow`, or for which it is true, and no glob of `deny`."""
    is_allowed = allow if callable(allow) else _name_matcher(allow)
    is_denied = _name_matcher(deny)

    def reshape(tools: Sequence[AnyTool]) -> list[AnyTool]:
        kept = [tool for tool in tools if is_allowed(tool) and not is_denied(tool)]
        kept_names = {tool.name for tool in kept}
        return FilteredTools(kept, {tool.name: FILTERED_OUT_REASON for tool in tools if tool.name not in kept_names})

    return _wrap_source(source, reshape, lambda name: name)


@overload
def renamed(source: Provider, names: Mapping[str, str]) -> Provider: ...
@overload
def renamed(source: Iterable[AnyTool], names: Mapping[str, str]) -> list[AnyTool]: ...
def renamed(source: Provider | Iterable[AnyTool], names: Mapping[str, str]) -> Provider | list[AnyTool]:
    """The same tools, some under another name: `{"old": "new"}`."""
    old_names = {new: old for old, new in names.items()}
    return _wrap_source(source, lambda tools: _rename_tools(tools, names), lambda name: old_names.get(name, name))


def _wrap_source(
    source: Provider | Iterable[AnyTool], reshape: ReshapeTools, original_name: Callable[[str], str]
) -> Provider | list[AnyTool]:
    return WrappedProvider(source, reshape, original_name) if isinstance(source, Provider) else reshape(list(source))


def _name_matcher(patterns: str | Iterable[str]) -> Callable[[AnyTool], bool]:
    pattern_list = [patterns] if isinstance(patterns, str) else patterns
    globs = ["*" if pattern.lower() == "any" else pattern.lower() for pattern in pattern_list]
    return lambda tool: any(fnmatchcase(tool.name.lower(), glob) for glob in globs)


def _rename_tools(tools: Sequence[AnyTool], names: Mapping[str, str]) -> list[AnyTool]:
    _validate_renames([tool.name for tool in tools], names)
    return [tool.evolve(name=names.get(tool.name, tool.name)) for tool in tools]


def _validate_renames(tool_names: list[str], names: Mapping[str, str]) -> None:
    for old, new in names.items():
        if old not in tool_names:
            near = nearest_names(old, tool_names, 1)
            fix = f"write {near[0]!r}." if near else f"rename one of {', '.join(tool_names) or 'none'}."
            raise DefinitionError(f"There is no tool {old!r} to rename.", fix=fix)
        if not is_legal_name(new):
            raise DefinitionError(f"{new!r} is not a legal tool name.", fix="use letters, digits, `_` and `-`.")
    new_names = Counter(names.get(name, name) for name in tool_names)
    duplicates = [name for name, count in new_names.items() if count > 1]
    if duplicates:
        raise DefinitionError(f"Two tools would be called {duplicates[0]!r}.", fix="give one of them another name.")


def _with_aliases(tool: AnyTool, aliases: tuple[str, ...]) -> AnyTool:
    if aliases == tool.aliases:
        return tool
    presentation = replace(tool.presentation, aliases=aliases)
    return tool.evolve(presentation=presentation, other_names=tool.other_names | set(tool.aliases))
