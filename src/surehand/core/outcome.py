"""Outcomes of calls: Done, Failed or Pending. They are immutable values.

They are plain classes instead of frozen dataclasses: a call creates one, and a `Done` with default fields takes a third
of the time, because it sets a single attribute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from reprlib import Repr
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Protocol, Self, TypeAlias, cast

from surehand.core.content import Audio, Block, File, Image, Json, Resource, Text, block_text, to_json, to_text
from surehand.core.errors import FAILURE_CODES, FailureCode, StillPending, error_class_for

if TYPE_CHECKING:
    from surehand.core.call import Call
    from surehand.core.legacy_results import LegacyDocument


@dataclass(frozen=True, slots=True)
class CallMeta:
    """Measurements of a call: its tool, times, attempts and sizes."""

    call_id: str = ""
    tool: str = ""
    kind: str = ""
    namespace: str = ""
    started_at: float = 0.0
    """Seconds since the epoch."""
    latency_ms: float = 0.0
    queued_ms: float = 0.0
    attempts: int = 0
    cached: bool = False
    characters_in: int = 0
    characters_out: int = 0
    tokens: int = 0
    """An estimate of the tokens of the text: one for four characters."""


class OutcomeOrigin(Protocol):
    """The call that produced an outcome, from which its `meta` is computed."""

    @property
    def tool_name(self) -> str: ...

    @property
    def call(self) -> Call: ...

    def build_meta(self, outcome: Outcome) -> CallMeta: ...


WaitingFor: TypeAlias = Literal["approval", "result", "input"]
"""What a pending call waits for: the approval of a person, the result of the work, or further input."""

PENDING_TEXT_START = '{"status":"pending"'
"""How the text of every `Pending` begins."""
PENDING_CALL_ID_FIELD = "pendingToolCallId"
"""The field of that text with the id of the call."""
_NO_METADATA: Mapping[str, Any] = MappingProxyType({})
_set_attribute = object.__setattr__
_NOT_IN_REPR = frozenset({"origin", "_content", "data_json", "clipped_text", "cause"})
_truncating_repr = Repr()
_truncating_repr.maxstring = _truncating_repr.maxother = 300


class _Outcome:
    """The common part of the three outcomes. Default values are class attributes, so that they need not be set."""

    ok: ClassVar[bool] = False
    _fields: ClassVar[tuple[str, ...]] = ()
    origin: OutcomeOrigin | None = None
    """The call that produced the outcome; `meta` is computed from it."""

    @property
    def meta(self) -> CallMeta:
        """Measurements of the call that produced the outcome, computed when asked for."""
        return CallMeta() if self.origin is None else self.origin.build_meta(cast("Outcome", self))

    def evolve(self, **changes: Any) -> Self:
        """A copy with some fields changed. The copy has no origin, and so an empty `meta`."""
        if changes and (unknown := changes.keys() - set(self._fields)):
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}.")
        # Without `__init__`, and through `__dict__`: `__setattr__` refuses every change of an outcome.
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.__dict__.pop("origin", None)
        new.__dict__.update(changes)
        return new

    def as_legacy(self, document: LegacyDocument) -> dict[str, Any]:
        """The result in the shape of one of the source documents: "000", "001", "002" or "004"."""
        # Imported on first use: dates and base64 are needed by few programs.
        from surehand.core.legacy_results import LegacySource, legacy_result

        meta = self.meta
        call = None if self.origin is None else self.origin.call
        common = {
            "text": cast("Outcome", self).text,
            "tool": meta.tool,
            "call_id": meta.call_id,
            "kind": meta.kind,
            "namespace": meta.namespace,
            "started_at": meta.started_at,
            "latency_ms": meta.latency_ms,
            "call": call,
        }
        return legacy_result(LegacySource(**{**common, **self._legacy_fields()}), document)

    def _legacy_fields(self) -> dict[str, Any]:
        """The fields of `LegacySource` that this kind of outcome has."""
        raise NotImplementedError

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"An outcome is immutable. Use evolve({name}=...) for a changed copy.")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        # Content that is computed from `data` adds nothing to it, and its text depends on the order of keys.
        names = ["_content" if name == "content" else name for name in self._fields]
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]  # data may be unhashable, so no outcome is hashable

    def __repr__(self) -> str:
        fields = {name: value for name, value in self.__dict__.items() if name not in _NOT_IN_REPR}
        non_empty = {name: value for name, value in fields.items() if value or (name == "data" and value is not None)}
        parts = (f"{name}={_truncating_repr.repr(value)}" for name, value in non_empty.items())
        return f"{type(self).__name__}({', '.join(parts)})"


class Done(_Outcome):
    """The call succeeded: `data` is the plain Python value, `text` the text for a model."""

    ok = True
    _fields = ("data", "content", "title", "metadata", "attachments")
    __match_args__ = ("data",)

    data: Any
    title: str | None = None
    metadata: Mapping[str, Any] = _NO_METADATA
    attachments: tuple[Block, ...] = ()
    _content: tuple[Block, ...] | None = None
    data_json: bytes | None = None
    """`data` as JSON, once it has been serialized."""
    clipped_text: str | None = None
    """The text for a model if the whole text was too long."""

    def __init__(
        self,
        data: Any = None,
        *,
        content: Sequence[Block] | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        attachments: Sequence[Block] = (),
    ) -> None:
        _set_attribute(self, "data", data)
        if content is not None:
            _set_attribute(self, "_content", tuple(content))
        if title is not None:
            _set_attribute(self, "title", title)
        if metadata is not None:
            _set_attribute(self, "metadata", metadata)
        if attachments:
            _set_attribute(self, "attachments", tuple(attachments))

    @property
    def content(self) -> tuple[Block, ...]:
        """The content blocks: those of the handler, or one that is computed from `data`; then the attachments."""
        return (*self.content_without_attachments, *self.attachments)

    @property
    def content_without_attachments(self) -> tuple[Block, ...]:
        """The content blocks before the attachments."""
        if self._content is not None:
            return self._content
        if self.data is None or isinstance(self.data, str):
            return (Text(self.text),)
        return (Json(self.data, self._json_text()),)

    @property
    def has_own_content(self) -> bool:
        """Whether the handler returned content blocks."""
        return self._content is not None

    @property
    def text(self) -> str:
        """The exact text for a model. It is never empty, because some model APIs refuse empty text."""
        if self.clipped_text is not None:
            return self.clipped_text
        if self._content is not None:
            return "\n".join(map(block_text, self._content)) or "(no output)"
        if self.data is None or self.data == "":
            return "(no output)"
        return self._json_text()

    def _json_text(self) -> str:
        return to_text(self.data) if self.data_json is None else self.data_json.decode()

    def serialize_data(self) -> Self:
        """Serialize `data` once and keep the JSON; raises if it cannot be serialized. Returns this same outcome."""
        if self.data_json is None and not isinstance(self.data, str):
            _set_attribute(self, "data_json", to_json(self.data))
        return self

    def text_size_bytes(self) -> int:
        """The size of the text in bytes. A large text that is ASCII or serialized already is not copied for it."""
        if self.data_json is not None and self._content is None and self.clipped_text is None:
            return len(self.data_json)
        text = self.text
        return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))

    def with_clipped_text(self, text: str) -> Done:
        """A copy with the same data and a shorter text for the model; images, recordings and files stay."""
        media = (block for block in self._content or () if isinstance(block, (Image, Audio, File)))
        clipped = self.evolve()
        _set_attribute(clipped, "clipped_text", text)
        _set_attribute(clipped, "_content", (Text(text), *media))
        return clipped

    def with_copied_data(self) -> Done:
        """A copy that does not share its data, so that changes to it do not reach this one. Data may be uncopyable."""
        new = self.evolve()
        with suppress(Exception):
            new.__dict__["data"] = deepcopy(self.data)
        return new

    def evolve(self, **changes: Any) -> Self:
        if not changes:
            return super().evolve()
        changes_text = "data" in changes or "content" in changes
        content = tuple(changes.pop("content")) if "content" in changes else self._content
        new = super().evolve(**changes)
        if changes_text:
            new.__dict__.pop("data_json", None)
            new.__dict__.pop("clipped_text", None)
        if content is not self._content:
            _set_attribute(new, "_content", content)
        return new

    def unwrap(self) -> Any:
        """The plain value."""
        return self.data

    def _legacy_fields(self) -> dict[str, Any]:
        own_content = self.content_without_attachments
        media = [block for block in own_content if isinstance(block, (Image, Audio, File, Resource))]
        return {
            "status": "done",
            "data_json": to_json(self.data) if self.data_json is None else self.data_json,
            "title": self.title,
            "metadata": self.metadata,
            "attachments": [*media, *(block for block in self.attachments if block not in media)],
        }


class Failed(_Outcome):
    """The call failed: `code` is for programs, `message` for the model."""

    _fields = ("code", "message", "executed", "data")
    __match_args__ = ("code", "message")

    code: FailureCode
    message: str
    executed: bool = False
    """Whether the handler may have run."""
    data: Any = None
    retry_after: float | None = None
    cause: BaseException | None = None
    """The exception behind the failure. Only in the process where it was raised: it is not stored."""

    def __init__(
        self,
        code: FailureCode,
        message: str = "",
        *,
        executed: bool = False,
        data: Any = None,
        retry_after: float | None = None,
    ) -> None:
        if code not in FAILURE_CODES:
            raise ValueError(f"{code!r} is not a failure code. Use one of: {', '.join(sorted(FAILURE_CODES))}.")
        _set_attribute(self, "code", code)
        _set_attribute(self, "message", message or code.replace("_", " "))
        _set_attribute(self, "executed", executed)
        _set_attribute(self, "data", data)
        _set_attribute(self, "retry_after", retry_after)

    @property
    def text(self) -> str:
        """The exact text for a model. Below the first line of a message stands output, which no bracket surrounds."""
        if "\n" in self.message:
            return f"Tool failed: {self.message}"
        return f"(tool failed: {self.message})"

    @property
    def content(self) -> tuple[Block, ...]:
        """The text as a block."""
        return (Text(self.text),)

    def unwrap(self) -> NoReturn:
        """Raise a `ToolError` with the same code and message; its class is that of the code, such as `NotFound`.

        Its `tool` is the name of the tool, its `__cause__` the exception behind the failure.
        """
        error = error_class_for(self.code)(self.message, code=self.code, data=self.data, retry_after=self.retry_after)
        error.tool = "" if self.origin is None else self.origin.tool_name
        raise error from self.cause

    def with_cause(self, error: BaseException) -> Self:
        """Keep the exception behind the failure, for `unwrap`. Returns this same outcome."""
        _set_attribute(self, "cause", error)
        return self

    def _legacy_fields(self) -> dict[str, Any]:
        metadata = self.data if isinstance(self.data, Mapping) else _NO_METADATA
        failure = {"error": self.message, "code": self.code, "executed": self.executed}
        return {"status": "failed", "metadata": metadata, **failure}


class Pending(_Outcome):
    """The call waits for an answer, which `approve`, `reject` or `settle` gives under its `call_id`."""

    _fields = ("waiting_for", "call_id", "message", "request", "expires_at", "state")
    __match_args__ = ("waiting_for", "call_id")
    data: Any = None
    """Always None: every outcome has `data`."""
    run_id: str | None = None
    """The run of an agent that the call waits for, see `for_run`."""

    @classmethod
    def for_run(cls, run_id: str, message: str = "") -> Self:
        """The outcome of a call that waits for a run of an agent, and ends with its report, in any process."""
        pending = cls("result", message=message or f"Waits for the run {run_id}.", request={"run": run_id})
        pending.__dict__["run_id"] = run_id
        return pending

    def __init__(
        self,
        waiting_for: WaitingFor = "result",
        call_id: str = "",
        message: str = "",
        request: Any = None,
        expires_at: float | None = None,
        *,
        state: Any = None,
        reply_timeout: float | None = None,
        time_to_live: float | None = None,
    ) -> None:
        self.__dict__.update(
            waiting_for=waiting_for,
            call_id=call_id,
            message=message,
            request=request,
            expires_at=expires_at,
            state=state,
            reply_timeout=reply_timeout,
            time_to_live=time_to_live,
        )

    waiting_for: WaitingFor
    call_id: str
    """The id for `approve`, `reject` and `settle`; the runtime sets it."""
    message: str
    request: Any
    """The form to show: a JSON Schema, a URL or a preview."""
    expires_at: float | None
    state: Any
    """Private state of the provider, which `resume` gets back."""
    reply_timeout: float | None
    """Seconds that the caller waits for the answer before it gets this outcome."""
    time_to_live: float | None
    """Seconds after which the call ends as `expired`; None for the default of the runtime, infinity for never."""

    @property
    def text(self) -> str:
        """The exact text for a model."""
        advice = "The answer comes later. Go on with other work, and do not repeat the call."
        fields = {"waiting_for": self.waiting_for, "message": self.message, "next": advice}
        return to_text({"status": "pending", PENDING_CALL_ID_FIELD: self.call_id, **fields})

    @property
    def content(self) -> tuple[Block, ...]:
        """The text as a block."""
        return (Text(self.text),)

    def unwrap(self) -> NoReturn:
        """Raise `StillPending`, because the call has no value yet."""
        error = StillPending(f"Call {self.call_id} is still waiting for {self.waiting_for}.", data=self.call_id)
        error.tool = "" if self.origin is None else self.origin.tool_name
        raise error

    def _legacy_fields(self) -> dict[str, Any]:
        return {
            "status": "pending",
            "call_id": self.call_id,
            "error": self.message or f"waiting for {self.waiting_for}",
            "waiting_for": self.waiting_for,
            "expires_at": self.expires_at,
        }


Outcome: TypeAlias = Done | Failed | Pending


def may_have_executed(outcome: Outcome) -> bool:
    """Whether the handler may have run and had an effect."""
    return not isinstance(outcome, Failed) or outcome.executed


def attach_origin(outcome: Outcome, origin: OutcomeOrigin) -> None:
    """Set the call that produced an outcome, so that `meta` can be computed when asked for."""
    _set_attribute(outcome, "origin", origin)
