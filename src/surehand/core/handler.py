"""Handlers of tools. A handler is compiled once, into a function that starts the work for one call.

This is the only place that decides how a function runs: a coroutine in the caller's task, a sync function in a thread.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from copy import copy
from functools import partial
from typing import Any, Protocol, TypeAlias

from surehand.core.context import Context, RunningCall, missing_value_error
from surehand.core.errors import DefinitionError, NotStarted
from surehand.core.outcome import Done, Failed, Pending
from surehand.core.signature import Signature

StartHandler: TypeAlias = Callable[[RunningCall], Awaitable[Any]]
"""Starts the work for one call; the runtime awaits what it returns."""
StartWithArguments: TypeAlias = Callable[[RunningCall, dict[str, Any]], Awaitable[Any]]
"""The same, with the arguments of the function already bound."""

_SEND_OPCODE = dis.opmap["SEND"]
# Every call compiles to an opcode with this prefix, such as CALL_FUNCTION_EX; their names differ between versions.
_CALL_OPCODES = frozenset(opcode for name, opcode in dis.opmap.items() if name.startswith("CALL"))


class Handler(Protocol):
    """The part of a tool that does the work."""

    @property
    def can_suspend(self) -> bool:
        """False if the handler never gives control back to the event loop, so that a deadline could not stop it."""
        ...

    @property
    def may_read_current_call(self) -> bool:
        """False if `Context.get` cannot be reached from the handler; the runtime then need not set the current call."""
        ...

    def compile(self) -> StartHandler:
        """Prepare the handler, once, when the runtime starts."""
        ...


class FunctionHandler:
    """Handler of a Python function: a coroutine function, a generator, or a sync function that runs in a thread."""

    def __init__(self, function: Callable[..., Any], signature: Signature, *, single_argument: bool = False) -> None:
        self.function = function
        self.signature = signature
        self._single_argument = single_argument
        self.used_values: dict[str, Any] = {}
        """Values of `use(...)` parameters that this instance brings itself."""

    def with_used_values(self, tool_name: str, values: Mapping[str, Any]) -> FunctionHandler:
        """The same handler with values for parameters that `use(...)` marks; raises `DefinitionError`."""
        used_types = self.signature.used_types
        for name, value in values.items():
            if name not in used_types:
                known = ", ".join(used_types) or "none"
                raise DefinitionError(
                    f"{tool_name} has no parameter {name!r} that use(...) marks.",
                    fix=f"its parameters with use(...): {known}.",
                    where=self.signature.where,
                )
            if not isinstance(value, used_types[name]):
                raise DefinitionError(
                    f"{name} of {tool_name} must be a {used_types[name].__name__}, not {type(value).__name__}.",
                    fix=f"give use={{{name!r}: <{used_types[name].__name__}>}}.",
                    where=self.signature.where,
                )
        changed = copy(self)
        changed.used_values = {**self.used_values, **values}
        return changed

    @property
    def can_suspend(self) -> bool:
        """False for a coroutine function without an `await`."""
        code = getattr(self.function, "__code__", None)
        if not code or not inspect.iscoroutinefunction(self.function):
            return True
        # Every `await`, `async for` and `async with` compiles to SEND. Bytecode alternates opcodes and operands.
        return _SEND_OPCODE in code.co_code[::2]

    @property
    def may_read_current_call(self) -> bool:
        """False for a function whose code calls nothing, and so cannot call `Context.get` either."""
        code = getattr(self.function, "__code__", None)
        return code is None or not _CALL_OPCODES.isdisjoint(code.co_code[::2])

    @property
    def defaults(self) -> dict[str, Any]:
        """The default values of the parameters, by name."""
        plain_defaults = {
            parameter.name: parameter.default
            for parameter in self.signature.model_parameters
            if parameter.default is not parameter.empty
        }
        return plain_defaults | {name: make() for name, make in self.signature.field_defaults.items()}

    def compile(self) -> StartHandler:
        start = self._build_starter()
        bind = self._build_argument_binder()
        if bind is not None:
            return lambda call: start(call, bind(call))
        if _callable_matches(inspect.iscoroutinefunction, self.function):
            function = self.function
            return lambda call: function(**call.arguments)
        return lambda call: start(call, call.arguments)

    def _build_starter(self) -> StartWithArguments:
        function = self._call_with_single_argument if self._single_argument else self.function
        if _callable_matches(inspect.isasyncgenfunction, self.function):
            return partial(_run_async_generator, function)
        if _callable_matches(inspect.iscoroutinefunction, self.function):
            return lambda call, values: function(**values)
        if _callable_matches(inspect.isgeneratorfunction, self.function):
            return lambda call, values: call.threads.run(partial(_run_generator, function, call, values))
        return lambda call, values: call.threads.run(partial(function, **values))

    def _call_with_single_argument(self, *, single_argument: Any, **extras: Any) -> Any:
        return self.function(single_argument, **extras)

    def _build_argument_binder(self) -> Callable[[RunningCall], dict[str, Any]] | None:
        """A function that adds the context, `use` values and defaults; None if the arguments need nothing else."""
        signature = self.signature
        single_argument = self._single_argument
        context_parameter = signature.context_parameter
        used_types = signature.used_types
        defaults = signature.field_defaults
        if not (context_parameter or used_types or defaults or single_argument):
            return None
        needs_context = signature.needs_context_when_standalone
        fixed_values = self.used_values
        used_types = {name: kind for name, kind in used_types.items() if name not in fixed_values}

        def bind(call: RunningCall) -> dict[str, Any]:
            values = {name: make() for name, make in defaults.items()}
            if single_argument:
                values["single_argument"] = getattr(call.arguments, "model", call.arguments)
            else:
                values.update(call.arguments)
            if context_parameter:
                values[context_parameter] = Context(call) if needs_context or not call.is_standalone else None
            if fixed_values:
                values.update(fixed_values)
            for name, value_type in used_types.items():
                values[name] = self._find_used_value(call, name, value_type)
            return values

        return bind

    def _find_used_value(self, call: RunningCall, name: str, value_type: type) -> Any:
        value: Any = call.find_value(value_type)
        if value is None and not call.is_standalone and not self.signature.is_optional(name):
            raise NotStarted(str(missing_value_error(value_type)))
        return value


def _callable_matches(predicate: Callable[[Any], bool], function: Any) -> bool:
    """Whether the predicate is true for a function, or for the `__call__` of an object."""
    call_method = getattr(type(function), "__call__", None)  # noqa: B004 - the method itself is needed
    return predicate(function) or predicate(call_method)


async def _run_async_generator(function: Callable[..., Any], call: RunningCall, values: dict[str, Any]) -> Any:
    """Run an async generator: each value is reported as progress when it is yielded; the last is also the result."""
    last = None
    async with aclosing(function(**values)) as items:
        async for item in items:
            call.report(_as_progress_update(item))
            last = item
    return last


def _run_generator(function: Callable[..., Any], call: RunningCall, values: dict[str, Any]) -> Any:
    """The same for a sync generator, in its thread."""
    last = None
    for item in function(**values):
        call.report(_as_progress_update(item))
        last = item
    return last


def _as_progress_update(item: Any) -> dict[str, Any]:
    """The fields of a progress event: `{"status": ..., "text": ...}`, the usual form, has its message in `text`."""
    if isinstance(item, dict):
        message = item.get("text")
        return {"message": message, **item} if isinstance(message, str) else dict(item)
    if isinstance(item, (Done, Failed, Pending)):
        return {"message": item.text}
    return {"message": str(item)}


def takes_single_argument(signature: Signature, properties: set[str]) -> bool:
    """Whether a handler with separate parameters takes all arguments as one value, instead of each by its name."""
    names = {parameter.name for parameter in signature.model_parameters}
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
