"""Oversized outputs: texts too large for a model, stored as artifacts under handles, and the tool that reads them.

The stages `clip` and `budget` store texts; the model reads excerpts with the tool `tool_output`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from surehand.catalogue.catalogue import Catalogue
from surehand.core.call import Principal
from surehand.core.content import to_text
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import InvalidArguments, NotFound
from surehand.core.ids import new_id
from surehand.core.threads import HandlerThreads
from surehand.core.tool import Tool
from surehand.runtime.limits.budget import estimate_tokens
from surehand.runtime.runtime_store import RuntimeStore

if TYPE_CHECKING:
    from surehand.store.store import Store
    from surehand.store.tables.artifacts import Artifact, ArtifactInfo

OversizeReason = Literal["size_limit_exceeded", "token_budget"]
MAX_ARTIFACTS_IN_MEMORY = 1_000
MAX_ARTIFACT_BYTES_IN_MEMORY = 1 << 30
MAX_COUNTED_CHARACTERS = 10_000_000
"""Texts up to this length have their lines counted exactly; of longer ones, only line breaks are counted."""
MAX_LINE_CHARACTERS = 20_000
"""Longer lines are split, so that a reader can ask for their pieces."""
READER_TOOL_NAME = "tool_output"
_EXCERPT_HEADER_BYTES = 700
"""Room in an excerpt for the handle and for the line about what is left out."""
_LINE_RANGE_PATTERN = re.compile(r"\s*(\d+)\s*(?:[-:,]\s*(\d+)?\s*)?\Z")


@dataclass(frozen=True, slots=True)
class OversizedOutput:
    """An output that was stored under a handle."""

    handle: str
    tool: str
    reason: OversizeReason
    byte_count: int
    line_count: int
    token_count: int

    def summary(self) -> dict[str, Any]:
        """What the model needs to know to read the output."""
        return {
            "handle": self.handle,
            "reason": self.reason,
            "bytes": self.byte_count,
            "lines": self.line_count,
            "tokens": self.token_count,
            "next": f"Read it with {READER_TOOL_NAME}(handle, lines='1-40'), or head=, tail=, grep=; "
            f"do not run {self.tool} again",
        }

    def placeholder_message(self, text: str, limit: int) -> str:
        """The text that the model gets instead of the output: the handle and a preview."""
        preview = text[: min(1_000, limit // 8)].encode(errors="replace").decode()
        return to_text({READER_TOOL_NAME: {**self.summary(), "preview": preview}})

    def excerpt_message(self, text: str, limit: int) -> str:
        """What a model is shown of the text: the handle on the first line, then the first and the last lines of it."""
        half = (limit - _EXCERPT_HEADER_BYTES) // 2
        if half <= 0:
            return self.placeholder_message(text, limit)
        raw = text.encode(errors="replace")
        head, tail = _first_lines(raw[:half]), _last_lines(raw[-half:])
        first, last = len(split_lines(head)) + 1, self.line_count - len(split_lines(tail))
        if first > last:  # part of one long line is left out, and the line is named
            first = last = max(last, 1)
        header = to_text({READER_TOOL_NAME: {**self.summary(), "left_out": f"{first}-{last}"}})
        return f"{header}\n{head}\n[... lines {first} to {last} left out ...]\n{tail}"


def _first_lines(raw: bytes) -> str:
    """The whole lines at the start of a text that was cut off; all of it if it has no line break."""
    end = raw.rfind(b"\n")
    return (raw[:end] if end > 0 else raw).decode(errors="ignore")


def _last_lines(raw: bytes) -> str:
    """The whole lines at the end of a text whose beginning was cut off; all of it if it has no line break."""
    start = raw.rstrip(b"\n").find(b"\n")
    return raw[start + 1 :].decode(errors="ignore")


def parse_placeholder(text: str) -> dict[str, Any] | None:
    """The summary in a placeholder message; None if the text is not one."""
    if not text.startswith(f'{{"{READER_TOOL_NAME}":'):
        return None
    try:
        # Only the first line is ours: what follows in an excerpt is the text of the tool.
        summary = json.loads(text.partition("\n")[0])[READER_TOOL_NAME]
    except (ValueError, RecursionError):
        return None
    return summary if isinstance(summary, dict) and isinstance(summary.get("handle"), str) else None


class OversizedOutputs:
    """The artifacts of a runtime. The reader tool is in the catalogue only once there is an artifact."""

    def __init__(self, store: RuntimeStore, catalogue: Catalogue, threads: HandlerThreads, *, max_output: int) -> None:
        self._store = store
        self._catalogue = catalogue
        self._max_output = max_output
        self.threads = threads
        self.stored_count = 0
        """Number of artifacts, as far as this runtime knows."""
        self._subscribers: dict[object, Callable[[str | None], None]] = {}

    async def store_text(
        self, text: str, principal: Principal, *, tool: str, reason: OversizeReason
    ) -> OversizedOutput:
        """Store a text for the principal of a call of the tool."""
        store = await self._store.open()
        size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
        lines = len(split_lines(text)) if len(text) <= MAX_COUNTED_CHARACTERS else text.count("\n") + 1
        output = OversizedOutput(new_id(), tool, reason, size, lines, estimate_tokens(text))
        await store.artifacts.save(
            output.handle,
            text,
            tool=tool,
            reason=reason,
            user=principal.user,
            session=principal.session,
            lines=lines,
            bytes=size,
        )
        self.stored_count += 1
        if not self._store.is_durable:
            await self._prune_memory(store)
        self.add_reader_tool()
        for on_stored in list(self._subscribers.values()):
            on_stored(principal.user)
        return output

    def subscribe(self, on_stored: Callable[[str | None], None]) -> Callable[[], None]:
        """Call `on_stored(user)` for every artifact that this runtime stores, until the returned function is called."""
        key = object()
        self._subscribers[key] = on_stored
        return lambda: self._subscribers.pop(key, None) and None

    def add_reader_tool(self) -> None:
        """Add the reader tool to the catalogue, if it is not there yet."""
        if READER_TOOL_NAME not in self._catalogue:
            self._catalogue.add(build_reader_tool(self, self._max_output))

    async def _prune_memory(self, store: Store) -> None:
        """Drop the oldest artifacts of a store in memory; a configured store has its own retention."""
        self.stored_count -= await store.artifacts.prune(
            older_than=None, keep=MAX_ARTIFACTS_IN_MEMORY, keep_bytes=MAX_ARTIFACT_BYTES_IN_MEMORY
        )

    async def list_newest(
        self, user: str | None, session: str | None, *, limit: int, before: tuple[float, str] | None = None
    ) -> list[ArtifactInfo]:
        """Metadata of an owner's artifacts, the newest first."""
        store = self._store.current
        return [] if store is None else await store.artifacts.list_newest(user, session, limit=limit, before=before)

    async def find_label(self, handle: str, user: str | None, session: str | None) -> ArtifactInfo | None:
        """Metadata of an artifact; None unless the user and session own it."""
        store = self._store.current
        return None if store is None else await store.artifacts.find_info(handle, user, session)

    async def find(self, handle: str, user: str | None, session: str | None) -> Artifact:
        """The artifact; raises NotFound unless the user and session own it."""
        store = self._store.current
        artifact = None if store is None else await store.artifacts.find(handle, user, session)
        if artifact is None:
            raise NotFound(f"There is no output {handle[:80]!r}. Copy the handle exactly as it was given.")
        return artifact


def build_reader_tool(outputs: OversizedOutputs, limit: int) -> Tool[..., Any]:
    """Build the tool that reads artifacts."""

    @tool(name=READER_TOOL_NAME, effects={"read"}, max_bytes=4 * limit, category="system", visible=False)
    async def tool_output(
        ctx: Context,
        handle: str,
        head: Annotated[int | None, "First so many lines"] = None,
        tail: Annotated[int | None, "Last so many lines"] = None,
        lines: str | None = None,
        grep: str | None = None,
        context: int = 0,
    ) -> str:
        """Read an output that was too large to show, part by part.

        Args:
            handle: The handle from the tool_output message.
            head: Only the first so many lines.
            tail: Only the last so many lines.
            lines: A range of line numbers, such as 10-40.
            grep: Only lines that match this regular expression.
            context: So many lines around each match.
        """
        text = (await outputs.find(handle, ctx.user, ctx.session)).text
        options: dict[str, Any] = {"head": head, "tail": tail, "lines": lines, "grep": grep, "context": context}
        # In a thread: searching a large text takes time, and must not block the event loop.
        return str(await outputs.threads.run(partial(render_excerpt, text, limit, **options)))

    return tool_output.evolve(kind="internal")


def render_excerpt(
    text: str,
    limit: int,
    *,
    head: int | None = None,
    tail: int | None = None,
    lines: str | None = None,
    grep: str | None = None,
    context: int = 0,
) -> str:
    """Render numbered lines, at most `limit` bytes of them, with a hint how to read the rest."""
    all_lines = split_lines(text)
    selected: Iterable[int] = range(len(all_lines))
    if lines is not None:
        selected = _parse_line_range(lines, len(all_lines))
    if grep is not None:
        selected = _find_matching_lines(all_lines, selected, grep, context)
    indexes = list(selected)
    if head is not None:
        indexes = indexes[: max(head, 0)]
    if tail is not None:
        indexes = indexes[len(indexes) - min(max(tail, 0), len(indexes)) :]
    return _render_lines(all_lines, indexes, limit)


def split_lines(text: str) -> list[str]:
    """Split a text into lines; overlong lines, such as most JSON, are split into pieces that can be read one by one."""
    if len(text) <= MAX_LINE_CHARACTERS * (text.count("\n") + 1) and all(
        len(line) <= MAX_LINE_CHARACTERS for line in text.splitlines()
    ):
        return text.splitlines()
    return [piece for line in text.splitlines() for piece in (_split_long_line(line) or [""])]


def _split_long_line(line: str) -> list[str]:
    return [line[start : start + MAX_LINE_CHARACTERS] for start in range(0, len(line), MAX_LINE_CHARACTERS)]


def _parse_line_range(lines: str, line_count: int) -> range:
    match = _LINE_RANGE_PATTERN.match(lines)
    if not match:
        raise InvalidArguments(f"{lines!r} is no range of lines. Write 10-40.")
    first = int(match[1])
    is_open_ended = "-" in lines and not match[2]
    last = line_count if is_open_ended else int(match[2] or match[1])
    return range(max(first - 1, 0), min(last, line_count))


def _find_matching_lines(lines: list[str], line_indexes: Iterable[int], grep: str, context: int) -> list[int]:
    """Indexes of the lines that match a regular expression, with context lines."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        # pydantic-core's own regex engine has no backtracking: no pattern can make it slow.
        pattern = SchemaValidator(core_schema.str_schema(pattern=grep, regex_engine="rust-regex"))
    except SchemaError as error:
        raise InvalidArguments(f"{grep!r} is no regular expression that can be used here: {error}.") from None
    matching = [index for index in line_indexes if pattern.isinstance_python(lines[index])]
    return _add_context_lines(matching, max(context, 0), len(lines))


def _add_context_lines(matching_indexes: list[int], context: int, line_count: int) -> list[int]:
    indexes: list[int] = []
    for match in matching_indexes:
        first = max(match - context, indexes[-1] + 1 if indexes else 0)
        indexes.extend(range(first, min(match + context + 1, line_count)))
    return indexes


def _render_lines(lines: list[str], line_indexes: list[int], limit: int) -> str:
    """Render lines with their numbers, until the limit in bytes is reached."""
    if not line_indexes:
        return f"(no lines; the output has {len(lines)})"
    rendered: list[str] = []
    bytes_left = limit - 200  # room for the hint
    for position, index in enumerate(line_indexes):
        line = f"{index + 1}\t{lines[index]}"
        bytes_left -= len(line.encode(errors="replace")) + 1
        if bytes_left < 0:
            rendered.append(_render_cut_line(line, bytes_left, index, len(line_indexes) - position))
            break
        rendered.append(line)
    return "\n".join(rendered)


def _render_cut_line(line: str, bytes_left: int, index: int, remaining: int) -> str:
    encoded = line.encode(errors="replace")
    start = encoded[: max(bytes_left + len(encoded), 0)].decode(errors="ignore")
    return f"{start}\n... {remaining} more lines, from line {index + 1}. Ask for lines='{index + 1}-' or use grep."
