"""The options of `gateway.mcp.server`, `serve` and `app`: how a runtime is served over MCP."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

from surehand.core.errors import DefinitionError
from surehand.core.names import nearest_names
from surehand.gateway.mcp.deferred_results import OnWait

APP_PARAMETERS = ("path", "token", "hosts", "origins")
"""Parameters of `app` alone, for the error about an unknown option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """How a runtime is served."""

    name: str = "surehand"
    """The server's name, which clients show."""
    version: str | None = None
    """The server's version; by default the version of surehand."""
    toolset: str | None = None
    """Serve only the tools of this toolset or glob."""
    user: str | None = None
    """The user of calls that come without a token."""
    short_names: bool = False
    """Show tools without the namespace of their provider, where the short name is unique."""
    page: int = 100
    """Tools, or resources, in one page of a list."""
    on_wait: OnWait | None = None
    """Called with the tool's name and the `Pending` for each pending call about which the client cannot be asked."""

    def __post_init__(self) -> None:
        if type(self.page) is not int or self.page < 1:
            raise DefinitionError(
                f"page must be a positive integer, got {self.page!r}.", fix="give page=100, for example."
            )
        for name in ("name", "version", "toolset", "user"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise DefinitionError(f"{name} must be a string, got {value!r}.", fix=f"give a string as {name}=.")
        if not self.name:
            raise DefinitionError(f"name must be a non-empty string, got {self.name!r}.", fix="give a string as name=.")
        if not isinstance(self.short_names, bool):
            raise DefinitionError(f"short_names must be a bool, got {self.short_names!r}.", fix="give True or False.")
        on_wait: Any = self.on_wait
        if on_wait is not None and not callable(on_wait):
            fix = "give a function of the tool's name and the Pending."
            raise DefinitionError(f"on_wait must be callable, got {on_wait!r}.", fix=fix)

    @classmethod
    def parse(cls, options: dict[str, Any]) -> Self:
        """Build the options from keyword arguments; raises `DefinitionError` for an unknown one."""
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                raise DefinitionError(f"An MCP server has no option {name!r}.", fix=_unknown_option_fix(name, known))
        return cls(**options)


def _unknown_option_fix(name: str, known: list[str]) -> str:
    nearest = nearest_names(name, [*known, *APP_PARAMETERS], 1)
    if not nearest:
        return f"use some of {', '.join(known)}."
    [option] = nearest
    if option in APP_PARAMETERS:
        return f"did you mean {option!r}? It is a parameter of `app`: {option}=..."
    return f"did you mean {option!r}?"
