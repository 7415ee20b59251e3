"""Outputs: texts that were too large for a model, kept under handles, and the tool that reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from toolwright.core.content import to_text
from toolwright.core.context import Context
from toolwright.core.define import tool
from toolwright.core.errors import NotFound
from toolwright.core.ids import new_id
from toolwright.core.tool import Tool
from toolwright.runtime.budget import estimate
from toolwright.runtime.excerpt import excerpt, rows_of
from toolwright.runtime.invocation import Invocation

if TYPE_CHECKING:
    from toolwright.runtime.parts import Parts

Reason = Literal["size_limit_exceeded", "token_budget"]
KEPT, KEPT_BYTES = 1_000, 1 << 30
MOST_COUNTED = 10_000_000
"""Characters up to which lines are counted exactly; beyond it, only line breaks are."""
NAME = "tool_output"


@dataclass(frozen=True, slots=True)
class Artifact:
    """An oversized output under a handle."""

    handle: str
    text: str
    tool: str
    reason: Reason
    owner: tuple[str | None, str | None]
    bytes: int
    lines: int

    def summary(self) -> dict[str, Any]:
        """What a model needs to know to go on."""
        return {
            "handle": self.handle,
            "reason": self.reason,
            "bytes": self.bytes,
            "lines": self.lines,
            "tokens": estimate(self.text),
            "next": f"Read it with {NAME}(handle, lines='1-40'), or head=, tail=, grep=; do not run {self.tool} again",
        }

    def message(self, text: str, limit: int) -> str:
        """What a model is shown in place of the text: the handle, and how it begins."""
        preview = text[: min(1_000, limit // 8)].encode(errors="replace").decode()
        return to_text({NAME: {**self.summary(), "preview": preview}})


class Outputs:
    """The artifacts of a runtime. The reader is in the catalogue only once there is something to read."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._kept: dict[str, Artifact] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, text: str, invocation: Invocation, *, reason: Reason) -> Artifact:
        """Keep a text for whoever called."""
        who = invocation.principal
        size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
        lines = len(rows_of(text)) if len(text) <= MOST_COUNTED else text.count("\n") + 1
        made = Artifact(new_id(), text, invocation.listing.name, reason, (who.user, who.session), size, lines)
        self._kept[made.handle] = made
        self._bytes += size
        self._make_room()
        if NAME not in self._parts.catalogue:
            self._parts.catalogue.add(reader(self, self._parts.defaults.max_output))
        return made

    def _make_room(self) -> None:
        while len(self._kept) > 1 and (len(self._kept) > KEPT or self._bytes > KEPT_BYTES):
            oldest = next(iter(self._kept))
            self._bytes -= self._kept.pop(oldest).bytes

    def find(self, handle: str, user: str | None, session: str | None) -> Artifact:
        """The artifact, for its owner alone: to others it does not exist."""
        found = self._kept.get(handle)
        if found is None or found.owner != (user, session):
            raise NotFound(f"There is no output {handle[:80]!r}. Copy the handle exactly as it was given.")
        return found


def reader(outputs: Outputs, limit: int) -> Tool[..., Any]:
    """The tool that reads artifacts."""

    @tool(name=NAME, effects={"read"}, max_bytes=4 * limit, category="system", visible=False)
    def tool_output(
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
        text = outputs.find(handle, ctx.user, ctx.session).text
        return excerpt(text, limit, head=head, tail=tail, lines=lines, grep=grep, context=context)

    return tool_output.evolve(kind="internal")
