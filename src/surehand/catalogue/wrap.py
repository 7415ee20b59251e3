"""`prefixed`, `filtered` and `renamed`: a provider or a list of tools, with some left out or under other names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, overload

from surehand.core.call import Call, Principal
from surehand.core.context import Context
from surehand.core.errors import DefinitionError
from surehand.core.names import is_legal_name, nearest_names
from surehand.core.outcome import Failed
from surehand.core.provider import Provider
from surehand.core.tool import Tool

AnyTool: TypeAlias = Tool[..., Any]
ReshapeTools: TypeAlias = Callable[[Sequence[AnyTool]], list[AnyTool]]
FILTERED_OUT_REASON = "it is filtered out"
ToolFilter: TypeAlias = str | Iterable[str] | Callable[[AnyTool], bool]


class FilteredTools(list[AnyTool]):
    """The tools that `filtered` kept of a list; the runtime refuses those left out by name."""

    def __init__(self, kept: Iterable[AnyTool], left_out: Iterable[str]) -> None:
        super().__init__(kept)
        self.left_out = frozenset(left_out)
        """Names of the tools that were not kept."""


@dataclass(eq=False)
class WrappedProvider(Provider):
    """A provider whose tools are those of another one, changed by `reshape`; it delegates everything else."""

    inner: Provider
    reshape: ReshapeTools
    original_name: Callable[[str], str]
    """Maps the name of a tool to its name in the inner provider."""
    left_out: frozenset[str] = field(default=frozenset(), init=False)
    """Tools of the inner provider that `reshape` dropped, by their names there."""

    def __post_init__(self) -> None:
        for name in _COPIED_SETTINGS:
            setattr(self, name, getattr(self.inner, name))

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not set yet, as while the object is being copied
            raise AttributeError(name)
        return getattr(self.inner, name)

    async def start(self) -> None:
        await self.inner.start()

    async def stop(self) -> None:
        await self.inner.stop()

    async def tools(self) -> list[AnyTool]:
        """The tools of the inner provider, reshaped."""
        tools = await self.inner.tools()
        kept = self.reshape(tools)
        used = {self.original_name(tool.name) for tool in kept}
        self.left_out = frozenset(tool.name for tool in tools if tool.name not in used)
        return kept

    def refusal_reason(self, tool: str) -> str | None:
        original = self.original_name(tool)
        return FILTERED_OUT_REASON if original in self.left_out else self.inner.refusal_reason(original)

    async def invoke(self, call: Call, context: Context) -> Any:
        return await self.inner.invoke(self._with_original_name(call), context)

    async def resume(self, call: Call, state: Any, answer: Any) -> Any:
        return await self.inner.resume(self._with_original_name(call), state, answer)

    async def resume_with_context(self, call: Call, state: Any, answer: Any, context: Context) -> Any:
        return await self.inner.resume_with_context(self._with_original_name(call), state, answer, context)

    async def cancel(self, call: Call, reason: str) -> None:
        await self.inner.cancel(self._with_original_name(call), reason)

    def can_resume_here(self, state: Any) -> bool:
        return self.inner.can_resume_here(state)

    def resume_failure(self, state: Any) -> Failed | None:
        return self.inner.resume_failure(state)

    async def refresh(self) -> None:
        await self.inner.refresh()

    async def refresh_for(self, principal: Principal) -> None:
        await self.inner.refresh_for(principal)

    async def load_tools_for(self, principal: Principal) -> bool:
        return await self.inner.load_tools_for(principal)

    def is_hidden_from(self, principal: Principal, tool: str) -> bool:
        return self.inner.is_hidden_from(principal, self.original_name(tool))

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        return self.inner.watch(watcher)

    def trace_messages(self) -> None:
        self.inner.trace_messages()

    def describe_missing_tools(self) -> str:
        return self.inner.describe_missing_tools()

    def instructions(self) -> str:
        return self.inner.instructions()

    def instructions_for(self, principal: Principal) -> str:
        return self.inner.instructions_for(principal)

    def _with_original_name(self, call: Call) -> Call:
        return replace(call, tool=self.original_name(call.tool))


_COPIED_SETTINGS = (
    "kind", "namespace", "timeout", "queue", "cache", "required", "retries_start", "tracks_own_health", "is_per_user",
    "cancels_promptly", "may_gain_tools", "on_conflict",
)  # fmt: skip


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
        return FilteredTools(kept, {tool.name for tool in tools} - {tool.name for tool in kept})

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
    return [_with_renamed_requirements(tool, names).evolve(name=names.get(tool.name, tool.name)) for tool in tools]


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


def _with_renamed_requirements(tool: AnyTool, names: Mapping[str, str]) -> AnyTool:
    requires = tuple(names.get(name, name) for name in tool.presentation.requires)
    return (
        tool
        if requires == tool.presentation.requires
        else tool.evolve(presentation=replace(tool.presentation, requires=requires))
    )


def _with_aliases(tool: AnyTool, aliases: tuple[str, ...]) -> AnyTool:
    return tool if aliases == tool.aliases else tool.evolve(presentation=replace(tool.presentation, aliases=aliases))
