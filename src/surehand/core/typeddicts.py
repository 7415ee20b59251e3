"""TypedDicts from `typing`, which pydantic refuses before Python 3.12, made into ones it takes."""

from __future__ import annotations

from typing import Any, get_type_hints


def to_pydantic_typed_dict(source: Any) -> Any:
    """The same TypedDict, as `typing_extensions` makes it."""
    from typing import NotRequired, Required

    from typing_extensions import TypedDict

    hints = get_type_hints(source, include_extras=True)
    required = source.__required_keys__
    keys = {
        name: (Required if name in required else NotRequired)[_strip_required_marker(hint)]
        for name, hint in hints.items()
    }
    make: Any = TypedDict  # type checkers want a literal name, and there is none here
    made = make(source.__name__, keys)
    made.__doc__ = source.__doc__
    made.__pydantic_config__ = getattr(source, "__pydantic_config__", {"extra": "forbid"})
    return made


def _strip_required_marker(hint: Any) -> Any:
    from typing import NotRequired, Required, get_args, get_origin

    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint
