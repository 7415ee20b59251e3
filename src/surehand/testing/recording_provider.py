"""`RecordingProvider`: a provider with scripted answers that records its calls."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from surehand.core.call import Call, Principal
from surehand.core.context import Context
from surehand.core.errors import DefinitionError
from surehand.core.facets import ToolKind
from surehand.core.names import nearest_names, qualified_name
from surehand.core.provider import Provider
from surehand.core.tool import Tool
from surehand.testing import tool_definition
from surehand.testing.unscripted import Unscripted

ToolOrName: TypeAlias = Tool[..., Any] | tuple[str, Mapping[str, Any]] | str
"""A tool, a name with a JSON Schema, or a name alone."""


class RecordingProvider(Provider):
    """A provider with scripted answers, which records its calls.

    An answer is a value or an outcome to return, an exception to raise, a function of the call, or an iterator with one
    of these for each call. A tool without an answer does its own work, if it has a handler.
    """

    def __init__(
        self,
        namespace: str,
        tools: Iterable[ToolOrName] | Mapping[str, Mapping[str, Any]],
        answers: Mapping[str, Any] | None = None,
        *,
        kind: ToolKind = "rest",
        timeout: float | None = None,
        queue: str | None = None,
        cache: float | None = None,
        instructions: str = "",
    ) -> None:
        self.namespace = namespace
        self.kind = kind
        self.timeout = timeout
        self.queue = queue
        self.cache = cache
        self.calls: list[Call] = []
        """Every call that reached the provider; `tool` is the tool's name without the namespace."""
        self.resumed: list[tuple[Call, Any]] = []
        """The calls that were resumed after a `Pending("input")`, each with the answer."""
        self.cancelled: list[tuple[Call, str]] = []
        """The calls that were cancelled or timed out, each with the reason."""
        self._instructions = instructions
        offered = tools.items() if isinstance(tools, Mapping) else tools
        self._tools = {tool.name: tool for tool in (_build_tool(each, kind) for each in offered)}
        self.answers = dict(answers or {})
        self._validate_answers()

    def _validate_answers(self) -> None:
        for name in self.answers.keys() - self._tools.keys():
            near = nearest_names(name, self._tools, 1)
            fix = f"did you mean {near[0]!r}?" if near else "offer a tool of it."
            raise DefinitionError(f"{self.namespace} has an answer for {name!r}, which it does not offer.", fix=fix)

    async def tools(self) -> Sequence[Tool[..., Any]]:
        """Return the tools without handlers: this provider does their work."""
        return [tool.evolve(handler=None) for tool in self._tools.values()]

    async def invoke(self, call: Call, context: Context) -> Any:
        """Record the call and return its answer."""
        self.calls.append(call)
        answer = self._find_answer(call)
        if callable(answer) and not _is_exception(answer):
            answer = answer(call)
        if inspect.isawaitable(answer):
            answer = await answer
        if _is_exception(answer):
            raise answer
        return answer

    def _find_answer(self, call: Call) -> Any:
        tool = self._tools[call.tool]
        if call.tool not in self.answers:
            return None if tool.handler is None else tool.run(call.arguments)
        answer = self.answers[call.tool]
        return self._next_answer(call.tool, answer) if isinstance(answer, Iterator) else answer

    def _next_answer(self, tool: str, answers: Iterator[Any]) -> Any:
        for answer in answers:
            return answer
        count = sum(call.tool == tool for call in self.calls)
        name = qualified_name(self.namespace, tool)
        raise Unscripted(f"{name} has no answer left for its call {count}.")

    async def resume(self, call: Call, state: Any, answer: Any, context: Context) -> Any:
        """Record the answer and return it as the result."""
        self.resumed.append((call, answer))
        return answer

    async def cancel(self, call: Call, reason: str) -> None:
        """Record that the call was cancelled."""
        self.cancelled.append((call, reason))

    def instructions(self, principal: Principal) -> str:
        """Return the instructions passed to the constructor."""
        return self._instructions


def _is_exception(answer: Any) -> bool:
    return isinstance(answer, BaseException) or (isinstance(answer, type) and issubclass(answer, BaseException))


def _build_tool(offered: ToolOrName, kind: ToolKind) -> Tool[..., Any]:
    if isinstance(offered, Tool):
        return offered
    name, schema = (offered, {}) if isinstance(offered, str) else offered
    return tool_definition.tool_from_json({"name": name, "parameters": schema}, kind)
