"""Handlers: how a tool does its work. A function tool invokes itself."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Protocol, TypeAlias

from surehand.core.context import Context, Running, missing
from surehand.core.errors import DefinitionError, NotStarted
from surehand.core.signature import Signature

Start: TypeAlias = Callable[[Running], Awaitable[Any]]
"""Begins the work for one call; what it gives is awaited."""
Begin: TypeAlias = Callable[[Running, dict[str, Any]], Awaitable[Any]]

_SEND = dis.opmap["SEND"]


class Handler(Protocol):
    """How a tool does its work."""

    @property
    def suspends(self) -> bool:
        """False if the work can never be interrupted, and so needs no deadline."""
        ...

    def compile(self) -> Start:
        """Make ready, once, when the runtime starts."""
        ...


class FunctionHandler:
    """A Python function: coroutine, async generator, or plain function in a thread."""

    def __init__(self, function: Callable[..., Any], signature: Signature, *, whole: bool = False) -> None:
        self.function, self.signature, self._whole = function, signature, whole

    @property
    def suspends(self) -> bool:
        """A coroutine without a single await runs to its end in one go: nothing could stop it in between."""
        code = getattr(self.function, "__code__", None)
        return not (code and inspect.iscoroutinefunction(self.function) and _SEND not in code.co_code[::2])

    @property
    def defaults(self) -> dict[str, Any]:
        """The values of parameters that a call leaves out."""
        plain = {p.name: p.default for p in self.signature.fields if p.default is not p.empty}
        return plain | {name: make() for name, make in self.signature.defaults.items()}

    def compile(self) -> Start:
        begin, bind = self._begin(), self._binder()
        if bind is not None:
            return lambda running: begin(running, bind(running))
        if _is(inspect.iscoroutinefunction, self.function):
            function = self.function
            return lambda running: function(**running.arguments)
        return lambda running: begin(running, running.arguments)

    def _begin(self) -> Begin:
        function = self._positional if self._whole else self.function
        if _is(inspect.isasyncgenfunction, self.function):
            return partial(_stream, function)
        if _is(inspect.iscoroutinefunction, self.function):
            return lambda running, values: function(**values)
        if _is(inspect.isgeneratorfunction, self.function):
            return lambda running, values: running.threads.run(partial(_exhaust, function, running, values))
        return lambda running, values: running.threads.run(partial(function, **values))

    def _positional(self, *, whole: Any, **extras: Any) -> Any:
        return self.function(whole, **extras)

    def _binder(self) -> Callable[[Running], dict[str, Any]] | None:
        """Adds what the runtime fills in; None where the arguments can be used as they are."""
        signature, whole = self.signature, self._whole
        context, uses, defaults = signature.context, signature.uses, signature.defaults
        if not (context or uses or defaults or whole):
            return None
        always = signature.wants_context_when_direct

        def bind(running: Running) -> dict[str, Any]:
            values = {name: make() for name, make in defaults.items()}
            values.update(
                {"whole": getattr(running.arguments, "model", running.arguments)} if whole else running.arguments
            )
            if context:
                values[context] = Context(running) if always or not running.direct else None
            for name, kind in uses.items():
                values[name] = self._offered(running, name, kind)
            return values

        return bind

    def _offered(self, running: Running, name: str, kind: type) -> Any:
        value: Any = running.offered(kind)
        if value is None and not running.direct and not self.signature.optional(name):
            raise NotStarted(str(missing(kind)))
        return value


def _is(test: Callable[[Any], bool], function: Any) -> bool:
    return test(function) or test(getattr(type(function), "__call__", None))  # noqa: B004 - which one, not whether


async def _stream(function: Callable[..., Any], running: Running, values: dict[str, Any]) -> Any:
    """Each value but the last is progress; the last is the result."""
    nothing = last = object()
    async with aclosing(function(**values)) as items:
        async for item in items:
            if last is not nothing:
                running.report(_as_update(last))
            last = item
    return None if last is nothing else last


def _exhaust(function: Callable[..., Any], running: Running, values: dict[str, Any]) -> Any:
    """The same for a plain generator, in its thread."""
    nothing = last = object()
    for item in function(**values):
        if last is not nothing:
            running.report(_as_update(last))
        last = item
    return None if last is nothing else last


def _as_update(item: Any) -> dict[str, Any]:
    return dict(item) if isinstance(item, dict) else {"message": str(item)}


def takes_whole(signature: Signature, properties: set[str]) -> bool:
    """Whether a handler with separate parameters takes the arguments as one value, or by their names."""
    names = {p.name for p in signature.fields}
    if signature.open:
        return False
    if len(names) == 1 and not names & properties and (properties or signature.needed):
        return True
    if properties <= names:
        return False
    raise DefinitionError(
        f"The handler takes {_listed(names)}, but the parameters are {_listed(properties)}.",
        fix="name the handler's parameters like the schema's properties, or take one `arguments` value.",
        where=signature.where,
    )


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
