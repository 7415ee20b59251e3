"""Functions that are facets of a tool: `confirm`, `confirm_message` and `preview`, of `(args)` or of `(args, ctx)`.

`tool_options` adapts them when a tool is defined, so that the runtime calls every one of them with both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from surehand.core.errors import DefinitionError

FACET_FUNCTION_NAMES = ("confirm", "confirm_message", "preview")
_CONTEXT_NAMES = ("ctx", "context")
_SIGNATURE_FIX = "give a function of (args), or of (args, ctx)."
_POSITIONAL_KINDS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class _FunctionOfArguments:
    """A function of the arguments alone, as a function of arguments and context."""

    function: Callable[[dict[str, Any]], Any]

    def __call__(self, arguments: dict[str, Any], context: Any) -> Any:
        return self.function(arguments)


def adapt_facet_function(name: str, value: Any, where: str) -> Any:
    """A function of arguments and context; any other value as it is. Raises `DefinitionError` for other signatures."""
    if not callable(value):
        return value
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # some built-in callables have no signature
        problem = f"{name}={value!r} cannot be used: its parameters cannot be found out."
        raise DefinitionError(problem, fix=_SIGNATURE_FIX, where=where) from None
    takes_context = _takes_context(signature)
    if takes_context is None:
        label = getattr(value, "__name__", type(value).__name__)
        raise DefinitionError(
            f"The `{name}` function {label}{signature} cannot be used.", fix=_SIGNATURE_FIX, where=where
        )
    return value if takes_context else _FunctionOfArguments(value)


def _takes_context(signature: inspect.Signature) -> bool | None:
    """Whether a function takes arguments and context, or arguments alone; None if it can be called with neither."""
    parameters = list(signature.parameters.values())
    positional = [each for each in parameters if each.kind in _POSITIONAL_KINDS]
    takes_any_number = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters)
    required_count = sum(each.default is each.empty for each in positional)
    needs_keyword = any(each.kind is each.KEYWORD_ONLY and each.default is each.empty for each in parameters)
    if needs_keyword or required_count > 2 or not (positional or takes_any_number):
        return None
    if required_count == 2:
        return True
    # A second parameter with a default is the function's own, such as `limit=100`, unless it is named as the context.
    return positional[1].name in _CONTEXT_NAMES if len(positional) > 1 else takes_any_number
