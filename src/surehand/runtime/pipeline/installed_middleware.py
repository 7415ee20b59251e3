"""Installed middleware: the middleware of a runtime, and the tools that each is for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from surehand.runtime.invocation.invocation import Invocation, NextStage

Middleware: TypeAlias = Callable[[Invocation, NextStage], Awaitable[Any]]
"""Gets the invocation and the rest of the pipeline, and returns an outcome."""


class OuterMiddleware:
    """Middleware around all other stages: it sees every call, before its arguments are checked and if it is refused."""

    def __init__(self, wrapper: Middleware) -> None:
        self._wrapper = wrapper
        self.__name__ = getattr(wrapper, "__name__", type(wrapper).__name__)

    async def __call__(self, invocation: Invocation, proceed: NextStage) -> Any:
        return await self._wrapper(invocation, proceed)


@dataclass(frozen=True, slots=True, eq=False)
class InstalledMiddleware:
    """Middleware of a runtime, and the tools that it is for. Each installation is removed on its own."""

    wrapper: Middleware
    tools: str = "*"
    """A glob of tool names."""

    def applies_to(self, names: Iterable[str]) -> bool:
        """Whether it is for a tool with any of these names."""
        return self.tools == "*" or any(fnmatchcase(name, self.tools) for name in names)


class MiddlewareTable:
    """The middleware of a runtime, the outermost first."""

    def __init__(self, middleware: Sequence[Middleware], *, on_change: Callable[[], None]) -> None:
        self._installed = tuple(map(InstalledMiddleware, middleware))
        self._on_change = on_change

    @property
    def wrappers(self) -> tuple[Middleware, ...]:
        """All middleware, whatever tools it is for."""
        return tuple(installed.wrapper for installed in self._installed)

    def for_tool(self, names: Iterable[str]) -> list[Middleware]:
        """The middleware for a tool with these names."""
        known = list(names)
        return [installed.wrapper for installed in self._installed if installed.applies_to(known)]

    def install(self, wrapper: Middleware, tools: str) -> Callable[[], None]:
        """Add middleware inside that which is there; returns the function that removes it."""
        added = InstalledMiddleware(wrapper, tools)

        def remove() -> None:
            self._installed = tuple(each for each in self._installed if each is not added)
            self._on_change()

        self._installed = (*self._installed, added)
        self._on_change()
        return remove
