"""The bodies of requests and responses, as the OpenAPI document describes them."""

from __future__ import annotations

from typing import Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from surehand.gateway.problems import PROBLEM_MEDIA_TYPE

MAX_ID_LENGTH = 200
RunStatus: TypeAlias = Literal["running", "waiting", "done", "stopped", "failed"]


class Body(BaseModel):
    """A body of a request: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class CallBody(Body):
    """The arguments of a call, and what it belongs to."""

    arguments: dict[str, Any] | str | None = Field(None, description="An object, or its JSON text as models write it.")
    timeout: float | str | None = Field(None, description="Seconds, `30s` or `off`; it bounds the whole call.")
    session: str | None = Field(None, min_length=1, max_length=MAX_ID_LENGTH)
    space: str | None = Field(None, min_length=1, max_length=MAX_ID_LENGTH)
    turn: str | None = Field(None, min_length=1, max_length=MAX_ID_LENGTH, description="The run that the call is of.")


class CallOutcome(BaseModel):
    """The outcome of a call."""

    status: Literal["done", "failed", "pending"]
    call_id: str
    data: Any = None
    text: str = Field(description="What a model is shown.")
    content: list[dict[str, Any]] | None = Field(None, description="Images, recordings and files, as content blocks.")
    code: str | None = Field(None, description="Of a failure, such as `timed_out`.")
    message: str | None = None
    executed: bool | None = Field(None, description="Whether the handler of a failed call may have run.")
    waiting_for: Literal["approval", "result", "input"] | None = None
    request: Any = Field(None, description="The form, preview or URL to show to the person who answers.")
    expires_at: float | None = None


class ApproveBody(Body):
    """An approval, optionally with edited arguments."""

    arguments: dict[str, Any] | None = None
    always: bool = Field(False, description="Let the same user call the tool without being asked from now on.")
    round: int | None = Field(None, ge=1, description="The question that this answers; the open one by default.")


class RejectBody(Body):
    """A refusal."""

    reason: str = Field("", max_length=10_000)
    round: int | None = Field(None, ge=1)


class ResultBody(Body):
    """The result of a call that a person, a browser or another service answers."""

    result: Any = Field(None, description="It may be null; without it, `failed` is needed.")
    failed: str | None = Field(None, max_length=10_000, description="The call failed: why. Instead of a result.")
    round: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        has_result = "result" in self.model_fields_set
        if self.failed is not None and has_result:
            raise ValueError("give `result` or `failed`, not both")
        if self.failed is None and not has_result:
            raise ValueError("give `result`, which may be null, or `failed`")
        return self


class ToolResultBody(BaseModel):
    """The result of a client tool, as client programs send it."""

    # They have defaults, because a body without one of them is 400, and not 422.
    model_config = ConfigDict(json_schema_extra={"required": ["callId", "result"]})

    callId: str = Field("", description="The id of the call.")  # noqa: N815 - the name on the wire
    result: Any = Field(None, description="It may be null, but not missing: then the answer is 400.")


class ClientTool(Body):
    """A tool that the client of a session brings, and answers itself."""

    name: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")
    description: str = Field(min_length=1, max_length=10_000)
    parameters: dict[str, Any] | None = Field(None, description="A JSON Schema.")
    reply: Literal["none", "wait", "later"] = "later"
    display: dict[str, Any] = Field(default_factory=dict)


class ClientToolsBody(Body):
    """The tools of a session."""

    tools: list[ClientTool] = Field(min_length=1, max_length=100)


class RunBody(Body):
    """What an agent is run on."""

    prompt: str | list[dict[str, Any]] = Field(
        description="A text, or the messages of a conversation: objects with `role` and `content`.", min_length=1
    )
    session: str | None = Field(None, min_length=1, max_length=MAX_ID_LENGTH)
    run_id: str | None = Field(
        None, pattern=r"^[A-Za-z0-9_.:~-]{1,200}$", description="An id of your own: the same id again is the same run."
    )

    @field_validator("prompt")
    @classmethod
    def _check_messages(cls, prompt: Any) -> Any:
        if isinstance(prompt, list) and not all(isinstance(each.get("role"), str) for each in prompt):
            raise ValueError("every message needs a `role`")
        return prompt

    def messages(self) -> list[dict[str, Any]]:
        """The prompt as messages. Instructions are the agent's own, so messages of the system are left out."""
        if isinstance(self.prompt, str):
            return [{"role": "user", "content": self.prompt}]
        return [each for each in self.prompt if each["role"] != "system"]


class TriggerBody(Body):
    """An event for an agent."""

    data: Any = Field(description="What the agent is run on: a text, or any JSON, which its model reads as JSON.")
    session: str | None = Field(None, min_length=1, max_length=MAX_ID_LENGTH)


class RunMessageBody(Body):
    """A message to a run."""

    text: str = Field(min_length=1, max_length=1_000_000)


class CancelBody(Body):
    """Why a run is stopped."""

    reason: str = Field("", max_length=1_000)


class SpaceBody(Body):
    """A new space."""

    id: str | None = Field(None, min_length=1, max_length=MAX_ID_LENGTH)
    name: str = Field("", max_length=MAX_ID_LENGTH)


class MemberBody(Body):
    """A member of a space."""

    id: str = Field(min_length=1, max_length=MAX_ID_LENGTH)
    kind: Literal["person", "agent"] = "person"
    name: str = Field("", max_length=MAX_ID_LENGTH)


class MessageBody(Body):
    """A message to a space."""

    content: Any = Field(description="A text, or any JSON.")
    reply_to: str | None = Field(None, max_length=MAX_ID_LENGTH)
    sender: str | None = Field(None, max_length=MAX_ID_LENGTH, description="The member who posts; the user by default.")


class ToolInfo(BaseModel):
    """A tool that may be called."""

    name: str
    description: str
    parameters: dict[str, Any]
    category: str
    effects: list[str]
    audience: str
    aliases: list[str]
    kind: str
    display: dict[str, Any]


class AgentInfo(BaseModel):
    """An agent that may be run."""

    id: str
    model: str


class AgentDetails(AgentInfo):
    """An agent, with the tools that its model may call."""

    tools: list[str]


class RunUsageInfo(BaseModel):
    """What a run has used."""

    requests: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: float | None = Field(None, description="US dollars, if the models reported their prices.")
    calls: int | None = None


class RunWait(BaseModel):
    """A call that a run waits for."""

    call_id: str
    tool: str
    arguments: dict[str, Any]
    waiting_for: Literal["approval", "result", "input"]
    message: str
    request: Any = None
    round: int
    expires_at: float | None = None
    path: list[str] = Field(description="The agents whose runs wait for the call, from the top.")


class RunResult(BaseModel):
    """The end of a run, or what it waits for."""

    run_id: str
    agent: str
    status: Literal["done", "waiting", "stopped", "failed"]
    text: str = Field(description="The last text of the model.")
    output: Any = None
    reason: str = Field(description="Why the run was stopped or failed, or what it waits for.")
    usage: RunUsageInfo | None = None
    waiting: list[RunWait]


class RunInfo(BaseModel):
    """A run that is remembered."""

    run_id: str
    agent: str
    status: RunStatus
    user: str | None = None
    session: str | None = None
    started_at: float
    ended_at: float | None = None
    reason: str
    text: str
    output: Any = None
    usage: RunUsageInfo | None = None
    parent_run: str | None = Field(None, description="The run whose call started this one, for a run of a sub-agent.")


class StepCallInfo(BaseModel):
    """A call that a response of the model asks for."""

    call_id: str
    tool: str
    arguments: str = Field(description="As the model wrote them.")
    outcome: dict[str, Any] | None = Field(None, description="The outcome of the call that the model was shown.")


class StepInfo(BaseModel):
    """One response of the model."""

    step: int
    text: str
    calls: list[StepCallInfo]
    usage: dict[str, Any]
    at: float


class RunDetails(RunInfo):
    """A run with its prompt and steps, if it has a store, and what it waits for."""

    prompt: Any = Field(None, description="The messages that the run was started with; null without a store.")
    steps: list[StepInfo]
    waiting: list[RunWait]


class PendingInfo(BaseModel):
    """A call that waits for an answer."""

    call_id: str
    tool: str
    arguments: dict[str, Any]
    waiting_for: Literal["approval", "result", "input"]
    message: str
    request: Any = None
    round: int
    may_answer: bool
    created_at: float
    expires_at: float | None = None
    user: str | None = None
    session: str | None = None
    agent: str | None = None
    run: str | None = None
    space: str | None = None
    parent: str | None = None
    display: dict[str, Any]


class CallInfo(BaseModel):
    """A call that is remembered."""

    call_id: str
    tool: str
    status: str = Field(description="`ok`, a failure code, what it waits for, or the state of a call that runs.")
    kind: str = Field(description="`ended`, `pending`, `settled`, or the state of a call that has not ended.")
    at: float
    user: str | None = None
    session: str | None = None
    parent: str | None = None
    latency_ms: float = 0.0
    turn: str | None = Field(None, description="The run that the call is of.")
    agent: str | None = None


class CallDetails(CallInfo):
    """A call with its arguments and outcome, as far as they are remembered."""

    arguments: Any = None
    outcome: CallOutcome | None = None


class AuditInfo(BaseModel):
    """Who did what to a call, and when."""

    at: float
    kind: str
    call_id: str
    tool: str
    user: str | None = None
    session: str | None = None
    by: str | None = None
    detail: dict[str, Any]


class SpaceInfo(BaseModel):
    """A space."""

    id: str
    name: str
    messages: int
    created_at: float


class MemberInfo(BaseModel):
    """A member of a space."""

    id: str
    kind: str
    name: str


class MessageInfo(BaseModel):
    """A message of a space."""

    id: str
    number: int
    content: Any = None
    sender_id: str | None = None
    sender_name: str
    sender_kind: str
    call_id: str | None = None
    reply_to: str | None = None
    created_at: float
    amended_at: float | None = None


class ToolPage(BaseModel):
    """A page of tools."""

    items: list[ToolInfo]
    next: str | None = None


class PendingPage(BaseModel):
    """A page of calls that wait."""

    items: list[PendingInfo]
    next: str | None = None


class CallPage(BaseModel):
    """A page of calls, newest first."""

    items: list[CallInfo]
    next: str | None = None


class AgentPage(BaseModel):
    """A page of agents."""

    items: list[AgentInfo]
    next: str | None = None


class InboxEventInfo(BaseModel):
    """An event in the inbox of an agent, and what has become of it."""

    event_id: str
    agent: str
    user: str | None = None
    session: str | None = None
    type: Literal["tool_result", "space_message", "plan", "service"] = Field(description="`service`: it was triggered.")
    data: Any = None
    status: Literal["waiting", "done", "failed"] = Field(description="`waiting` until the run of the event has ended.")
    reason: str = Field(description="Why it failed, what its run waits for, or why the last attempt failed.")
    attempts: int = Field(description="How many attempts of its run have failed.")
    run_id: str | None = Field(None, description="The run that the event starts or continues.")
    run_status: RunStatus | None = Field(None, description="The status of that run; null if it has not begun.")
    created_at: float


class InboxEventPage(BaseModel):
    """A page of events in the inbox of an agent, newest first."""

    items: list[InboxEventInfo]
    next: str | None = None


class RunPage(BaseModel):
    """A page of runs, newest first."""

    items: list[RunInfo]
    next: str | None = None


class AuditPage(BaseModel):
    """A page of audit rows, newest first."""

    items: list[AuditInfo]
    next: str | None = None


class SpacePage(BaseModel):
    """A page of spaces."""

    items: list[SpaceInfo]
    next: str | None = None


class MemberPage(BaseModel):
    """The members of a space."""

    items: list[MemberInfo]
    next: str | None = None


class MessagePage(BaseModel):
    """A page of messages, newest first."""

    items: list[MessageInfo]
    next: str | None = None


class ProblemDetails(BaseModel):
    """An error."""

    type: str
    title: str
    status: int
    code: str
    detail: str


_PROBLEM = {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"description": "The request is malformed", "content": _PROBLEM},
    401: {"description": "No valid token", "content": _PROBLEM},
    403: {"description": "Not allowed", "content": _PROBLEM},
    404: {"description": "There is no such thing, or it is another user's", "content": _PROBLEM},
    409: {"description": "It was answered or decided otherwise before", "content": _PROBLEM},
    410: {"description": "Nobody answered in time", "content": _PROBLEM},
    413: {"description": "The body is too large", "content": _PROBLEM},
    415: {"description": "The body is no JSON", "content": _PROBLEM},
    421: {"description": "The host is not served here", "content": _PROBLEM},
    422: {"description": "The arguments are not valid", "content": _PROBLEM},
    429: {"description": "Too many requests; `Retry-After` says when to try again", "content": _PROBLEM},
    503: {"description": "Not available now", "content": _PROBLEM},
}
"""The errors that any route may respond with."""
CALL_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The call ended", "model": CallOutcome},
    202: {"description": "The call waits, or goes on elsewhere", "model": CallOutcome},
}
RUN_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The run ended",
        "model": RunResult,
        "content": {"text/event-stream": {}},
    },
    202: {"description": "The run waits", "model": RunResult},
}
TRIGGER_RESPONSES: dict[int | str, dict[str, Any]] = {
    202: {"description": "The event is stored", "model": InboxEventInfo},
}
EVENT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "Server-sent events", "content": {"text/event-stream": {}}}
}
