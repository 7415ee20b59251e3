"""A provider with tools of given names."""

from collections.abc import Sequence
from typing import Any

from surehand import Call, Context, Provider, Tool, tool


class NamedToolsProvider(Provider):
    """Its tools return their own names."""

    def __init__(self, namespace: str, *names: str, says: str = "") -> None:
        self.namespace, self.names, self.says = namespace, names, says

    async def tools(self) -> Sequence[Tool[..., Any]]:
        return [tool.provided(name, f"Do {name}.") for name in self.names]

    async def invoke(self, call: Call, context: Context) -> str:
        return f"{self.namespace} did {call.tool}"

    def instructions(self, principal: Any) -> str:
        return self.says
