"""What an AG-UI client sends to run an agent: its conversation and tools, and its answers to interrupts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ag_ui.core import AssistantMessage, Message, ReasoningMessage, ResumeEntry, RunAgentInput, ToolMessage, UserMessage
from pydantic_core import from_json

from surehand.core.outcome import Failed, Outcome
from surehand.gateway.access.identity import Identity
from surehand.gateway.agui.interrupt_id import InterruptId
from surehand.gateway.api.pending import REFUSALS, AnswerPermission, require_may_answer
from surehand.gateway.api.requests import raise_if_refused
from surehand.gateway.gateway import Gateway
from surehand.gateway.problems import Problem
from surehand.store.tables.pending import PendingRound

CANCELLED_REASON = "The person cancelled it."
NO_RESULT = "This call has no result: the run ended before."


def conversation(run_input: RunAgentInput) -> list[dict[str, Any]]:
    """The messages of a client in the form of OpenAI's Chat Completions API; those of the system are left out."""
    own_messages = [each for each in run_input.messages if each.subagent_run_id is None]  # not those of sub-agents
    messages = [converted for each in own_messages if (converted := _convert(each)) is not None]
    if not messages:
        raise Problem("invalid_arguments", "`messages` has no message of a user.")
    return [*_complete_calls(messages)]


def _complete_calls(messages: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Add a result to each call without one, such as those of a cancelled run: models refuse a conversation without."""
    results = {each["tool_call_id"] for each in messages if each["role"] == "tool"}
    for message in messages:
        yield dict(message)
        for call in message.get("tool_calls", ()):
            if call["id"] not in results:
                yield {"role": "tool", "tool_call_id": call["id"], "content": NO_RESULT}


def _convert(message: Message) -> dict[str, Any] | None:
    match message:
        case UserMessage():
            return {"role": "user", "content": _content(message.content)}
        case AssistantMessage():
            converted: dict[str, Any] = {"role": "assistant", "content": message.content}
            if message.tool_calls:
                converted["tool_calls"] = [each.model_dump(mode="json", by_alias=False) for each in message.tool_calls]
            return converted
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": _content(message.content)}
        case ReasoningMessage():
            return None
    return None


def _content(content: Any) -> Any:
    """A text, or the parts of a message: a part that is no text is named, because not every model reads it."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text if part.type == "text" else f"[{part.type}]" for part in content)


def find_tool_results(run_input: RunAgentInput) -> dict[str, Any]:
    """The results at the end of the conversation, by the id of the call: of tools that the client runs itself."""
    results: dict[str, Any] = {}
    for message in reversed(run_input.messages):
        if not isinstance(message, ToolMessage):
            break
        results[message.tool_call_id] = Failed("failed", message.error) if message.error else _content(message.content)
    return results


def find_known_calls(run_input: RunAgentInput) -> set[str]:
    """The calls that the client has with complete arguments: it would add arguments that it reads again to these."""
    messages = [each for each in run_input.messages if isinstance(each, AssistantMessage)]
    calls = [call for message in messages for call in message.tool_calls or ()]
    return {call.id for call in calls if _is_json(call.function.arguments)}


def _is_json(text: str) -> bool:
    try:
        from_json(text)
    except ValueError:
        return False
    return True


def find_answered_calls(run_input: RunAgentInput) -> list[str]:
    """The calls that the input has answers to."""
    interrupted = [InterruptId.parse(entry.interrupt_id).call_id for entry in run_input.resume or ()]
    return [*interrupted, *find_tool_results(run_input)]


async def give_answers(gateway: Gateway, identity: Identity, run_input: RunAgentInput) -> None:
    """Answer the calls that the input has answers to; raises `Problem` if an answer is refused."""
    for entry in run_input.resume or ():
        outcome = await _give_answer(gateway, identity, entry)
        raise_if_refused(outcome, *REFUSALS, call_id=InterruptId.parse(entry.interrupt_id).call_id)
    for call_id, result in find_tool_results(run_input).items():
        if await _waiting_for(gateway, call_id) == "result":  # the conversation has results of ended calls, too
            permission = await require_may_answer(gateway, identity, call_id, "settle")
            outcome = await permission.scope.settle(call_id, result, by=identity.user, round=permission.round)
            raise_if_refused(outcome, *REFUSALS, call_id=call_id)


async def _waiting_for(gateway: Gateway, call_id: str) -> str | None:
    status = await gateway.runtime.status(call_id)
    return None if status is None or status.question is None else status.question.waiting_for


async def _give_answer(gateway: Gateway, identity: Identity, entry: ResumeEntry) -> Outcome:
    """Give an answer to the question that its interrupt has named, and to no other one."""
    interrupt = InterruptId.parse(entry.interrupt_id)
    call_id = interrupt.call_id
    if entry.status == "cancelled":
        permission = await _require_may_answer(gateway, identity, interrupt, "reject")
        return await permission.scope.reject(call_id, CANCELLED_REASON, by=identity.user, round=permission.round)
    question = await _find_question(gateway, interrupt)
    if question is not None and question.waiting_for != "approval":
        permission = await _require_may_answer(gateway, identity, interrupt, "settle")
        return await permission.scope.settle(call_id, entry.payload, by=identity.user, round=permission.round)
    approved, arguments, reason = _read_decision(entry.payload)
    if approved:
        permission = await _require_may_answer(gateway, identity, interrupt, "approve")
        return await permission.scope.approve(call_id, arguments=arguments, by=identity.user, round=permission.round)
    permission = await _require_may_answer(gateway, identity, interrupt, "reject")
    return await permission.scope.reject(call_id, reason, by=identity.user, round=permission.round)


async def _find_question(gateway: Gateway, interrupt: InterruptId) -> PendingRound | None:
    questions = await gateway.runtime.questions(interrupt.call_id)
    return next((each for each in questions if each.round == interrupt.round), None)


async def _require_may_answer(
    gateway: Gateway, identity: Identity, interrupt: InterruptId, action: str
) -> AnswerPermission:
    """What an identity may answer; raises `Problem`, and audits it, if that is nothing."""
    question = await _find_question(gateway, interrupt)
    status = await gateway.runtime.status(interrupt.call_id)
    is_later_open = status is not None and status.round > interrupt.round
    if question is not None and not question.is_open and is_later_open:
        # The client may have missed the next question. The runtime lets the same answer pass without effect, and
        # refuses a different one; a call of another user is not found.
        return AnswerPermission(gateway.scope(identity), interrupt.round)
    return await require_may_answer(gateway, identity, interrupt.call_id, action, interrupt.round)


def _read_decision(payload: Any) -> tuple[bool, dict[str, Any] | None, str]:
    """The answer to an approval: `{approved, arguments?, reason?}`."""
    decision = payload if isinstance(payload, Mapping) else {}
    approved = decision.get("approved")
    arguments = decision.get("arguments")
    reason = decision.get("reason") or ""
    if not isinstance(approved, bool) or not isinstance(reason, str) or not isinstance(arguments, (dict, type(None))):
        shape = "{approved: boolean, arguments?: object, reason?: string}"
        raise Problem("invalid_arguments", f"The payload of an answer to an approval has the form {shape}.")
    return approved, arguments, reason


def response_schema(waiting_for: str, request: Any) -> dict[str, Any] | None:
    """The JSON Schema of the answer to a wait; None if any answer will do."""
    schema = request.get("schema") if isinstance(request, Mapping) else None
    if waiting_for == "approval":
        return {
            "type": "object",
            "properties": {
                "approved": {"type": "boolean"},
                "arguments": dict(schema) if isinstance(schema, Mapping) else {"type": "object"},
                "reason": {"type": "string"},
            },
            "required": ["approved"],
        }
    return dict(schema) if isinstance(schema, Mapping) else None


def client_tool_names(run_input: RunAgentInput) -> Sequence[str]:
    """The names of the tools that the client brings."""
    return [each.name for each in run_input.tools or ()]
