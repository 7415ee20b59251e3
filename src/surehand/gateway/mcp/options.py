"""Options: how a runtime is served."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

from surehand.core.errors import DefinitionError
from surehand.core.names import nearest_names
from surehand.gateway.mcp.deferred_results import OnWait

APP_PARAMETERS = ("path", "token", "hosts", "origins")
"ServeOptionsns of an app alone, which somebody may have meant."


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """How a runtime is served."""

    name: str = "surehand"
    """What clients are told that the server is called."""
    version: str | None = None
    """Which version of it; surehand's own where none is given."""
    toolset: str | None = None
    """Only the tools of a named selection."""
    user: str | None = None
    """For whom calls are made that come without a token."""
    short_names: bool = False
    """Show tools without the names of their providers, where only one bears the name."""
    page: int = 100
    """Tools, or outputs, in one answer to a list request."""
    on_wait: OnWait | None = None
    """Is told of each call that waits for somebody whom its client cannot ask: the tool's name, and the `Pending`."""

    def __post_init__(self) -> None:
        if type(self.page) is not int or self.page < 1:
            raise DefinitionError(f"page={self.page!r} is no number of tools.", fix="give a whole number from 1 on.")
        for name in ("name", "version", "toolset", "user"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise DefinitionError(f"{name}={value!r} cannot be used.", fix="give a text.")
        if not self.name:
            raise DefinitionError(f"name={self.name!r} cannot be used.", fix="give a text.")
        if not isinstance(self.short_names, bool):
            raise DefinitionError(f"short_names={self.short_names!r} cannot be used.", fix="give True or False.")
        on_wait: Any = self.on_wait
        if on_wait is not None and not callable(on_wait):
            fix = "give a function of the tool's name and the Pending."
            raise DefinitionError(f"on_wait={on_wait!r} cannot be called.", fix=fix)

    @classmethod
    def parse(cls, options: dict[str, Any]) -> Self:
        """Options by name; raises `DefinitionError` for one that is not known."""
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                near = nearest_names(name, [*known, *APP_PARAMETERS], 1)
                fix = f"did you mean {near[0]!r}?" if near else f"use some of {', '.join(known)}."
                fix += f" It is one of `app`: {near[0]}=..." if near and near[0] in APP_PARAMETERS else ""
                raise DefinitionError(f"An MCP server has no option {name!r}.", fix=fix)
        return cls(**options)
