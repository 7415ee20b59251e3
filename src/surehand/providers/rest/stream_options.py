"""The option `stream` of REST tools: a name, or a mapping with the fields of a stream format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from surehand.core.errors import DefinitionError
from surehand.core.names import nearest_names
from surehand.providers.rest.streams import EventStreamFormat, JsonStreamFormat, NdjsonFormat, StreamFormat

_FORMATS: Mapping[str, type[StreamFormat]] = {
    "ndjson": NdjsonFormat,
    "sse": EventStreamFormat,
    "json-stream": JsonStreamFormat,
}


def parse_stream(value: Any) -> StreamFormat:
    """Parse what a developer gave as `stream`; raises `DefinitionError`."""
    if isinstance(value, (NdjsonFormat, EventStreamFormat, JsonStreamFormat)):
        return value
    options = {"mode": value} if isinstance(value, str) else value
    mode = options.get("mode") if isinstance(options, Mapping) else None
    if not isinstance(options, Mapping) or mode not in _FORMATS:
        raise DefinitionError(f"stream={value!r} cannot be used.", fix=f"use one of {', '.join(_FORMATS)}.")
    stream_format = _FORMATS[str(mode)]
    known = [each.name for each in fields(stream_format)]
    given: dict[str, Any] = {str(name): option for name, option in options.items() if name != "mode"}
    for name in given.keys() - set(known):
        near = nearest_names(name, known, 1)
        fix = f"did you mean {near[0]!r}?" if near else f"use some of {', '.join(known)}."
        raise DefinitionError(f"stream has no key {name!r} in the mode {mode}.", fix=fix)
    _check_values(given)
    return stream_format(**given)


def _check_values(given: Mapping[str, Any]) -> None:
    for name, option in given.items():
        if name == "collect":
            is_valid = option in ("items", "last")
        elif name == "max_bytes":
            is_valid = option is None or (isinstance(option, int) and option > 0)
        else:
            is_valid = isinstance(option, str)
        if not is_valid:
            raise DefinitionError(f"stream.{name}={option!r} cannot be used.", fix="see the page on REST tools.")
