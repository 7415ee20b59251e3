"""Handlers: how a tool does its work. A function tool invokes itself."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Protocol, TypeAlias

from surehand.core.context import Context, RunningCall, missing_value_error
from surehand.core.errors import DefinitionError, NotStarted
from surehand.core.signature import Signature

StartHandler: TypeAlias = Callable[[RunningCall], Awaitable[Any]]
"""Begins the work for one call; what it gives is awaited."""
StartWithArguments: TypeAlias = Callable[[RunningCall, dict[str, Any]], Awaitable[Any]]

_SEND_OPCODE = dis.opmap["SEND"]


class Handler(Protocol):
    """How a tool does its work."""

    @property
    def can_suspend(self) -> bool:
        """False if the work can never be interrupted, and so needs no deadline."""
        ...

    def compile(self) -> StartHandler:
        """Make ready, once, when the runtime starts."""
        ...


class FunctionHandler:
    """A Python function: coroutine, async generator, or plain function in a thread."""

    def __init__(self, function: Callable[..., Any], signature: Signature, *, single_argument: bool = False) -> None:
        self.function, self.signature, self._single_argument = function, signature, single_argument

    @property
    def can_suspend(self) -> bool:
        """A coroutine without a single await runs to its end in one go: nothing could stop it in between."""
        code = getattr(self.function, "__code__", None)
        return not (code and inspect.iscoroutinefunction(self.function) and _SEND_OPCODE not in code.co_code[::2])

    @property
    def defaults(self) -> dict[str, Any]:
        """The values of parameters that a call leaves out."""
        plain = {p.name: p.default for p in self.signature.model_parameters if p.default is not p.empty}
        return plain | {name: make() for name, make in self.signature.field_defaults.items()}

    def compile(self) -> StartHandler:
        begin, bind = self._build_starter(), self._build_argument_binder()
        if bind is not None:
            return lambda running: begin(running, bind(running))
        if _callable_matches(inspect.iscoroutinefunction, self.function):
            function = self.function
            return lambda running: function(**running.arguments)
        return lambda running: begin(running, running.arguments)

    def _build_starter(self) -> StartWithArguments:
        function = self._call_with_single_argument if self._single_argument else self.function
        if _callable_matches(inspect.isasyncgenfunction, self.function):
            return partial(_run_async_generator, function)
        if _callable_matches(inspect.iscoroutinefunction, self.function):
            return lambda running, values: function(**values)
        if _callable_matches(inspect.isgeneratorfunction, self.function):
            return lambda running, values: running.threads.run(partial(_run_generator, function, running, values))
        return lambda running, values: running.threads.run(partial(function, **values))

    def _call_with_single_argument(self, *, whole: Any, **extras: Any) -> Any:
        return self.function(whole, **extras)

    def _build_argument_binder(self) -> Callable[[RunningCall], dict[str, Any]] | None:
        """Adds what the runtime fills in; None where the arguments can be used as they are."""
        signature, whole = self.signature, self._single_argument
        context, uses, defaults = signature.context_parameter, signature.used_types, signature.field_defaults
        if not (context or uses or defaults or whole):
            return None
        always = signature.needs_context_when_standalone

        def bind(running: RunningCall) -> dict[str, Any]:
            values = {name: make() for name, make in defaults.items()}
            values.update(
                {"whole": getattr(running.arguments, "model", running.arguments)} if whole else running.arguments
            )
            if context:
                values[context] = Context(running) if always or not running.is_standalone else None
            for name, kind in uses.items():
                values[name] = self._find_used_value(running, name, kind)
            return values

        return bind

    def _find_used_value(self, call: RunningCall, name: str, value_type: type) -> Any:
        value: Any = call.find_value(value_type)
        if value is None and not call.is_standalone and not self.signature.is_optional(name):
            raise NotStarted(str(missing_value_error(value_type)))
        return value


def _callable_matches(predicate: Callable[[Any], bool], function: Any) -> bool:
    return predicate(function) or predicate(getattr(type(function), "__call__", None))  # noqa: B004 - which one, not whether


async def _run_async_generator(function: Callable[..., Any], call: RunningCall, values: dict[str, Any]) -> Any:
    """Each value but the last is progress; the last is the result."""
    nothing = last = object()
    async with aclosing(function(**values)) as items:
        async for item in items:
            if last is not nothing:
                call.report(_as_progress_update(last))
            last = item
    return None if last is nothing else last


def _run_generator(function: Callable[..., Any], call: RunningCall, values: dict[str, Any]) -> Any:
    """The same for a plain generator, in its thread."""
    nothing = last = object()
    for item in function(**values):
        if last is not nothing:
            call.report(_as_progress_update(last))
        last = item
    return None if last is nothing else last


def _as_progress_update(item: Any) -> dict[str, Any]:
    return dict(item) if isinstance(item, dict) else {"message": str(item)}


def takes_single_argument(signature: Signature, properties: set[str]) -> bool:
    """Whether a handler with separate parameters takes the arguments as one value, or by their names."""
    names = {p.name for p in signature.model_parameters}
    if signature.has_var_keyword:
        return False
    if len(names) == 1 and not names & properties and (properties or signature.required_names):
        return True
    if properties <= names:
        return False
    raise DefinitionError(
        f"The handler takes {_join_names(names)}, but the parameters are {_join_names(properties)}.",
        fix="name the handler's parameters like the schema's properties, or take one `arguments` value.",
        where=signature.where,
    )


def _join_names(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
