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
from surehand.runtime.budget import estimate
from surehand.runtime.excerpt import excerpt, rows_of
from surehand.runtime.invocation import Invocation

if TYPE_CHECKING:
    from surehand.runtime.parts import Parts
    from surehand.store.artifacts import Artifact, Label
    from surehand.store.store import Store

Reason = Literal["size_limit_exceeded", "token_budget"]
KEPT, KEPT_BYTES = 1_000, 1 << 30
MOST_COUNTED = 10_000_000
"""Characters up to which lines are counted exactly; beyond it, only line breaks are."""
NAME = "tool_output"


@dataclass(frozen=True, slots=True)
class Kept:
    """An oversized output under a handle."""

    handle: str
    tool: str
    reason: Reason
    bytes: int
    lines: int
    tokens: int

    def summary(self) -> dict[str, Any]:
        """What a model needs to know to go on."""
        return {
            "handle": self.handle,
            "reason": self.reason,
            "bytes": self.bytes,
            "lines": self.lines,
            "tokens": self.tokens,
            "next": f"Read it with {NAME}(handle, lines='1-40'), or head=, tail=, grep=; do not run {self.tool} again",
        }

    def message(self, text: str, limit: int) -> str:
        """What a model is shown in place of the text: the handle, and how it begins."""
        preview = text[: min(1_000, limit // 8)].encode(errors="replace").decode()
        return to_text({NAME: {**self.summary(), "preview": preview}})


def told_of(text: str) -> dict[str, Any] | None:
    """The summary of the artifact that a text stands for, if it is such a message."""
    if not text.startswith(f'{{"{NAME}":'):
        return None
    try:
        summary = json.loads(text)[NAME]
    except (ValueError, RecursionError):
        return None
    return summary if isinstance(summary, dict) and isinstance(summary.get("handle"), str) else None


class Outputs:
    """The artifacts of a runtime. The reader is in the catalogue only once there is something to read."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self.threads = parts, parts.threads
        self.count = 0
        """How many there are, as far as this runtime knows."""
        self._watchers: dict[object, Callable[[str | None], None]] = {}

    async def keep(self, text: str, invocation: Invocation, *, reason: Reason) -> Kept:
        """Keep a text for whoever called."""
        who, name, store = invocation.principal, invocation.listing.name, await self._parts.remembered()
        size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
        lines = len(rows_of(text)) if len(text) <= MOST_COUNTED else text.count("\n") + 1
        made = Kept(new_id(), name, reason, size, lines, estimate(text))
        await store.artifacts.keep(
            made.handle, text, tool=name, reason=reason, user=who.user, session=who.session, lines=lines, bytes=size
        )
        self.count += 1
        if not self._parts.durable:
            await self._make_room(store)
        self.show_reader()
        for watcher in list(self._watchers.values()):
            watcher(who.user)
        return made

    def watch(self, watcher: Callable[[str | None], None]) -> Callable[[], None]:
        """Be told when this runtime has kept one, and for which user. Gives what ends that."""
        key = object()
        self._watchers[key] = watcher
        return lambda: self._watchers.pop(key, None) and None

    def show_reader(self) -> None:
        """Now there is something to read."""
        if NAME not in self._parts.catalogue:
            self._parts.catalogue.add(reader(self, self._parts.defaults.max_output))

    async def _make_room(self, store: Store) -> None:
        """Memory is for the latest; a store that was asked for keeps its own time."""
        self.count -= await store.artifacts.prune(older_than=None, keep=KEPT, keep_bytes=KEPT_BYTES)

    async def newest(
        self, user: str | None, session: str | None, *, most: int, before: tuple[float, str] | None = None
    ) -> list[Label]:
        """What is known of an owner's artifacts, the newest first."""
        store = self._parts.store
        return [] if store is None else await store.artifacts.newest(user, session, most=most, before=before)

    async def label(self, handle: str, user: str | None, session: str | None) -> Label | None:
        """What is known of an artifact, for its owner alone."""
        store = self._parts.store
        return None if store is None else await store.artifacts.label(handle, user, session)

    async def find(self, handle: str, user: str | None, session: str | None) -> Artifact:
        """The artifact, for its owner alone: to others it does not exist."""
        store = self._parts.store
        found = None if store is None else await store.artifacts.find(handle, user, session)
        if found is None:
            raise NotFound(f"There is no output {handle[:80]!r}. Copy the handle exactly as it was given.")
        return found


def reader(outputs: Outputs, limit: int) -> Tool[..., Any]:
    """The tool that reads artifacts."""

    @tool(name=NAME, effects={"read"}, max_bytes=4 * limit, category="system", visible=False)
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
        return str(await outputs.threads.run(partial(excerpt, text, limit, **options)))

    return tool_output.evolve(kind="internal")
