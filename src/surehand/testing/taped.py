"""Taped provider: a provider whose tools are recorded too, so that a replay need not start it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from surehand.catalogue.wrap import WrappedProvider
from surehand.core.call import Principal
from surehand.core.tool import Tool
from surehand.testing import definition

if TYPE_CHECKING:
    from surehand.testing.tape import Cassette


@dataclass(eq=False)
class CassetteProvider(WrappedProvider):
    """The real provider while a cassette records; while it replays, the tools that were recorded."""

    cassette: Cassette

    async def start(self) -> None:
        if self.cassette.recording:
            await self.inner.start()

    async def stop(self) -> None:
        if self.cassette.recording:
            await self.inner.stop()

    async def tools(self) -> list[Tool[..., Any]]:
        """The tools that it offers now, or offered then."""
        if not self.cassette.recording:
            return [
                definition.tool_from_json(each, self.kind)
                for each in self.cassette.recorded_provider(self.namespace)["tools"]
            ]
        found = list(await self.inner.tools())
        told = {"instructions": text} if (text := self.inner.instructions()) else {}
        self.cassette.providers[self.namespace] = {**told, "tools": [definition.tool_to_json(tool) for tool in found]}
        return found

    def instructions(self) -> str:
        if self.cassette.recording:
            return self.inner.instructions()
        return str(self.cassette.recorded_provider(self.namespace).get("instructions", ""))

    def instructions_for(self, principal: Principal) -> str:
        return super().instructions_for(principal) if self.cassette.recording else self.instructions()
