"""RequestBuilder: the next request to the model, with instructions, the conversation as far as it fits, and tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from surehand.agent.compaction import Compactor, count_characters
from surehand.agent.conversation import whole_conversation
from surehand.agent.exchanges import Conversation, split_conversation
from surehand.agent.hooks import RunHooks, Tick
from surehand.agent.models.base import Message, ModelRequest
from surehand.agent.output import OutputType
from surehand.agent.run_state import RunState
from surehand.agent.steps import NO_COMPACTION, Compaction
from surehand.agent.sub_agents import agent_tool_name
from surehand.core.tool import Tool

if TYPE_CHECKING:
    from surehand.runtime.scope import Scope


@dataclass(frozen=True, slots=True)
class BuiltRequest:
    """A request, and what it was built from."""

    request: ModelRequest
    compaction: Compaction
    """How much of the conversation is shortened in it."""
    full_messages: list[Message]
    """The conversation, nothing shortened."""
    split: Callable[[], Conversation]
    """Splits the conversation into exchanges."""
    start: list[Message]
    """The messages before the conversation."""
    other_chars: int
    """The characters of the request beside its conversation."""

    @property
    def characters(self) -> int:
        """The characters that a model reads."""
        return self.other_chars + count_characters(self.request.messages[len(self.start) :])


@dataclass(frozen=True, slots=True)
class RequestBuilder:
    """Builds the requests that the runs of an agent send to its model."""

    instructions: str
    output: OutputType
    compactor: Compactor
    reads_provider_instructions: bool
    """Whether the model is shown the instructions of the runtime's providers: it has tools of theirs."""

    async def build(
        self, scope: Scope, state: RunState, new_messages: list[Message], late_results: int, tick: Tick, hooks: RunHooks
    ) -> BuiltRequest:
        """The next request of a run.

        Args:
            new_messages: what the conversation gains with this request, of which the first are `late_results`.
        """
        tools = _describe_tools(scope, state)
        system = await self._write_instructions(scope, tick, hooks)
        start: list[Message] = [{"role": "system", "content": system}] if system else []
        other_chars = len(system) + _count_tool_characters(tools, state)
        full_messages = [*whole_conversation(state.prompt, state.steps), *new_messages]
        split = partial(split_conversation, state.prompt, state.steps, new_messages, late_results)
        current = state.steps[-1].compaction if state.steps else NO_COMPACTION
        compaction, messages = self.compactor.compact(full_messages, split, current, other_chars)
        request = ModelRequest([*start, *messages], tools, _hosted_tools(scope), self.output.schema)
        return BuiltRequest(request, compaction, full_messages, split, start, other_chars)

    def shorten(self, built: BuiltRequest) -> BuiltRequest | None:
        """The request with at most half of its characters, as far as possible; None if it gets no shorter."""
        allowed = replace(built.compaction, max_chars=built.characters // 2)
        compaction, messages = self.compactor.compact(built.full_messages, built.split, allowed, built.other_chars)
        request = replace(built.request, messages=[*built.start, *messages])
        shorter = replace(built, request=request, compaction=compaction)
        return shorter if shorter.characters < built.characters else None

    async def _write_instructions(self, scope: Scope, tick: Tick, hooks: RunHooks) -> str:
        """The text of the system message, with what hooks add to it for this request."""
        rendered = [str(text) for text in await hooks.call("render", tick)]
        provider_text = scope.instructions() if self.reads_provider_instructions else ""
        parts = [self.instructions, provider_text, self.output.instructions, *rendered]
        return "\n\n".join(part for part in parts if part)


def _describe_tools(scope: Scope, state: RunState) -> list[dict[str, Any]]:
    """The tools that the model may call, in the format of OpenAI."""
    # Hosted tools have an entry in the format of their own provider alone: each model describes them itself.
    tools = [entry for entry in scope.describe("openai") if entry.get("type") == "function"]
    # The agents above wait for this run: calling them is refused.
    agents_above = {agent_tool_name(name) for name in state.path}
    if not any(name in scope.catalogue for name in agents_above):
        return tools
    return [entry for entry in tools if entry["function"]["name"] not in agents_above]


def _count_tool_characters(tools: list[dict[str, Any]], state: RunState) -> int:
    # Descriptions share their texts and schemas until a tool changes, so comparing them is cheaper than writing JSON.
    if tuple(tools) != state.described_tools[0]:
        state.described_tools = (tuple(tools), len(json.dumps(tools)))
    return state.described_tools[1]


def _hosted_tools(scope: Scope) -> tuple[Tool[..., object], ...]:
    listings = [*(scope.own_catalogue or ()), *scope.catalogue]
    return tuple(each.tool for each in listings if each.tool.kind == "hosted" and scope.may_use(each))
