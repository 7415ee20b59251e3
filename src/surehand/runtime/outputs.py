"""Outputs: texts that were too large for a model, kept under handles, and the tool that reads them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from surehand.core.content import to_text
from surehand.core.context import Context
from surehand.core.define import tool
from surehand.core.errors import NotFound
from surehand.core.ids import new_id
from surehand.core.tool import Tool
from surehand.runtime.budget import estimate_tokens
from surehand.runtime.excerpt import render_excerpt, split_lines
from surehand.runtime.invocation import Invocation

if TYPE_CHECKING:
    from surehand.runtime.parts import RuntimeServices
    from surehand.store.artifacts import Artifact, ArtifactInfo
    from surehand.store.store import Store

OversizeReason = Literal["size_limit_exceeded", "token_budget"]
MAX_ARTIFACTS_IN_MEMORY, MAX_ARTIFACT_BYTES_IN_MEMORY = 1_000, 1 << 30
MAX_COUNTED_CHARACTERS = 10_000_000
"""Characters up to which lines are counted exactly; beyond it, only line breaks are."""
READER_TOOL_NAME = "tool_output"


@dataclass(frozen=True, slots=True)
class OversizedOutput:
    """An oversized output under a handle."""

    handle: str
    tool: str
    reason: OversizeReason
    byte_count: int
    line_count: int
    token_count: int

    def summary(self) -> dict[str, Any]:
        """What a model needs to know to go on."""
        return {
            "handle": self.handle,
            "reason": self.reason,
            "bytes": self.byte_count,
            "lines": self.line_count,
            "tokens": self.token_count,
            "next": f"Read it with {READER_TOOL_NAME}(handle, lines='1-40'), or head=, tail=, grep=; do not run {self.tool} again",
        }

    def placeholder_message(self, text: str, limit: int) -> str:
        """What a model is shown in place of the text: the handle, and how it begins."""
        preview = text[: min(1_000, limit // 8)].encode(errors="replace").decode()
        return to_text({READER_TOOL_NAME: {**self.summary(), "preview": preview}})


def parse_placeholder(text: str) -> dict[str, Any] | None:
    """The summary of the artifact that a text stands for, if it is such a message."""
    if not text.startswith(f'{{"{READER_TOOL_NAME}":'):
        return None
    try:
        summary = json.loads(text)[READER_TOOL_NAME]
    except (ValueError, RecursionError):
        return None
    return summary if isinstance(summary, dict) and isinstance(summary.get("handle"), str) else None


class OversizedOutputs:
    """The artifacts of a runtime. The reader is in the catalogue only once there is something to read."""

    def __init__(self, services: RuntimeServices) -> None:
        self._services, self.threads = services, services.threads
        self.stored_count = 0
        """How many there are, as far as this runtime knows."""
        self._subscribers: dict[object, Callable[[str | None], None]] = {}

    async def store_text(self, text: str, invocation: Invocation, *, reason: OversizeReason) -> OversizedOutput:
        """Keep a text for whoever called."""
        who, name, store = invocation.principal, invocation.listing.name, await self._services.open_store()
        size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
        lines = len(split_lines(text)) if len(text) <= MAX_COUNTED_CHARACTERS else text.count("\n") + 1
        made = OversizedOutput(new_id(), name, reason, size, lines, estimate_tokens(text))
        await store.artifacts.save(
            made.handle, text, tool=name, reason=reason, user=who.user, session=who.session, lines=lines, bytes=size
        )
        self.stored_count += 1
        if not self._services.is_durable:
            await self._prune_memory(store)
        self.add_reader_tool()
        for watcher in list(self._subscribers.values()):
            watcher(who.user)
        return made

    def subscribe(self, on_stored: Callable[[str | None], None]) -> Callable[[], None]:
        """Be told when this runtime has kept one, and for which user. Gives what ends that."""
        key = object()
        self._subscribers[key] = on_stored
        return lambda: self._subscribers.pop(key, None) and None

    def add_reader_tool(self) -> None:
        """Now there is something to read."""
        if READER_TOOL_NAME not in self._services.catalogue:
            self._services.catalogue.add(build_reader_tool(self, self._services.defaults.max_output))

    async def _prune_memory(self, store: Store) -> None:
        """Memory is for the latest; a store that was asked for keeps its own time."""
        self.stored_count -= await store.artifacts.prune(
            older_than=None, keep=MAX_ARTIFACTS_IN_MEMORY, keep_bytes=MAX_ARTIFACT_BYTES_IN_MEMORY
        )

    async def list_newest(
        self, user: str | None, session: str | None, *, limit: int, before: tuple[float, str] | None = None
    ) -> list[ArtifactInfo]:
        """What is known of an owner's artifacts, the newest first."""
        store = self._services.store
        return [] if store is None else await store.artifacts.list_newest(user, session, limit=limit, before=before)

    async def find_label(self, handle: str, user: str | None, session: str | None) -> ArtifactInfo | None:
        """What is known of an artifact, for its owner alone."""
        store = self._services.store
        return None if store is None else await store.artifacts.find_info(handle, user, session)

    async def find(self, handle: str, user: str | None, session: str | None) -> Artifact:
        """The artifact, for its owner alone: to others it does not exist."""
        store = self._services.store
        found = None if store is None else await store.artifacts.find(handle, user, session)
        if found is None:
            raise NotFound(f"There is no output {handle[:80]!r}. Copy the handle exactly as it was given.")
        return found


def build_reader_tool(outputs: OversizedOutputs, limit: int) -> Tool[..., Any]:
    """The tool that reads artifacts."""

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
        # In a thread: a pattern may take its time, and the rest of the runtime must not wait for it.
        return str(await outputs.threads.run(partial(render_excerpt, text, limit, **options)))

    return tool_output.evolve(kind="internal")
