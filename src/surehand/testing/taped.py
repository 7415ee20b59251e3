"""Taped provider: a provider whose tools are recorded too, so that a replay need not start it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surehand.catalogue.wrap import Wrapped
from surehand.core.call import Principal
from surehand.core.tool import Tool
from surehand.testing import definition

if TYPE_CHECKING:
    from surehand.testing.tape import Cassette


@dataclass(eq=False)
class TapedProvider(Wrapped):
    """The real provider while a cassette records; while it replays, the tools that were recorded."""

    tape: Cassette

    async def start(self) -> None:
        if self.tape.recording:
            await self.inner.start()

    async def stop(self) -> None:
        if self.tape.recording:
            await self.inner.stop()

    async def tools(self) -> list[Tool[..., Any]]:
        """The tools that it offers now, or offered then."""
        if not self.tape.recording:
            return [definition.read(each, self.kind) for each in self.tape.offered(self.namespace)["tools"]]
        found = list(await self.inner.tools())
        told = {"instructions": text} if (text := self.inner.instructions()) else {}
        self.tape.providers[self.namespace] = {**told, "tools": [definition.written(tool) for tool in found]}
        return found

    def instructions(self) -> str:
        if self.tape.recording:
            return self.inner.instructions()
        return str(self.tape.offered(self.namespace).get("instructions", ""))

    def told_to(self, who: Principal) -> str:
        return super().told_to(who) if self.tape.recording else self.instructions()
