"""The request of one tick: instructions, the conversation as far as it fits, and the tools."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surehand.agent.compaction import Compactor, count_characters
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
class PromptBuilder:
    """Builds the requests of an agent."""

    instructions: str
    output: OutputType
    compactor: Compactor
    reads_provider_instructions: bool
    """Whether the model is shown the instructions of the runtime's providers: it has tools of theirs."""

    async def build(
        self, scope: Scope, state: RunState, before: list[Message], tick: Tick, hooks: RunHooks
    ) -> tuple[Compaction, ModelRequest]:
        """The next request of a run, and how much of its conversation is shortened.

        Args:
            before: the messages that the conversation gains with this request.
        """
        # Hosted tools have an entry in the format of their own provider alone: each model describes them itself.
        tools = [entry for entry in scope.describe("openai") if entry.get("type") == "function"]
        if any(agent_tool_name(name) in scope.catalogue for name in state.path):
            above = {agent_tool_name(name) for name in state.path}  # they wait for this run: calling them is refused
            tools = [entry for entry in tools if entry["function"]["name"] not in above]
        rendered = [str(text) for text in await hooks.call("render", tick)]
        provider_text = scope.instructions() if self.reads_provider_instructions else ""
        parts = [self.instructions, provider_text, self.output.instructions, *rendered]
        system = "\n\n".join(part for part in parts if part)
        compaction = state.steps[-1].compaction if state.steps else NO_COMPACTION
        if len(tools) != state.described_tools[0]:
            state.described_tools = (len(tools), len(json.dumps(tools)))
        other_chars = len(system) + count_characters(before) + state.described_tools[1]
        compaction, conversation = self.compactor.compact(state.prompt, state.steps, compaction, other_chars)
        start: list[Message] = [{"role": "system", "content": system}] if system else []
        return compaction, ModelRequest(
            [*start, *conversation, *before], tools, _hosted_tools(scope), self.output.schema
        )


def _hosted_tools(scope: Scope) -> tuple[Tool[..., object], ...]:
    listings = [*(scope.own_catalogue or ()), *scope.catalogue]
    return tuple(each.tool for each in listings if each.tool.kind == "hosted" and scope.may_use(each))
