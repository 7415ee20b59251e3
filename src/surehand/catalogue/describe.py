"""Describing: the catalogue in the words of each model API. A tool that an API would refuse is left out."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from surehand.catalogue.gemini import for_gemini
from surehand.catalogue.listing import Listing
from surehand.catalogue.projections import Unshowable, as_object, copied, for_anthropic, for_openai
from surehand.core.names import nearest
from surehand.core.rawschema import RawParameters
from surehand.core.schema import JSON
from surehand.core.tool import Tool

log = logging.getLogger("surehand")

MAX_OPENAI_DESCRIPTION = 1024
"""Chat Completions refuses the whole request for a longer one."""
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_GEMINI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}\Z")


class Described(list[dict[str, Any]]):
    """Tools as a model API wants them; `left_out` says which are missing, and why."""

    def __init__(self, entries: Iterable[dict[str, Any]] = (), left_out: dict[str, str] | None = None) -> None:
        super().__init__(entries)
        self.left_out = dict(left_out or {})

    def copy(self) -> Described:
        """A copy whose entries may be added to, as one marks the last for a prompt cache; schemas are shared."""
        return Described([_two_deep(entry) for entry in self], self.left_out)


def _two_deep(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: dict(value) if isinstance(value, dict) else value for key, value in entry.items()}


def describe(listings: Iterable[Listing], format: str, *, workspace: str | None = None) -> Described:
    """Every listing in one format: openai, responses, anthropic, gemini or mcp."""
    provider, entry = _format(format)
    described = Described()
    for listing in listings:
        try:
            described.append(_entry(listing, provider, entry, workspace))
        except Unshowable as reason:
            described.left_out[listing.name] = str(reason)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one tool, the others are still shown
            described.left_out[listing.name] = f"it cannot be described ({type(error).__name__}: {error})"
    for name, why in described.left_out.items():
        log.warning("%s is left out of the tools for %s: %s.", name, format, why.rstrip("."))
    return described


Entry: TypeAlias = Callable[[str, str, Tool[..., Any]], dict[str, Any]]
"""From the name on the wire, the description and the tool to what the API is shown."""


def _entry(listing: Listing, provider: str, entry: Entry, workspace: str | None) -> dict[str, Any]:
    tool, options = listing.tool, listing.tool.face.provider_options.get(provider)
    if tool.kind == "hosted":
        return _hosted(options, provider)
    shown = entry(listing.wire, tool.told.text(workspace), tool)
    return _with_options(shown, copied(options)) if options else shown


def _hosted(options: Any, provider: str) -> dict[str, Any]:
    if not options:
        raise Unshowable(f"the model's provider runs it, and it has no options for {provider}")
    return dict(copied(options))


def _with_options(shown: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """A tool's own options for a provider, beside its name; never the name, which is how its calls are found."""
    options.pop("name", None)
    if "function" not in shown:
        return shown | options
    top = {key: options.pop(key) for key in list(options) if key == "type"}
    return shown | top | {"function": shown["function"] | options}


def _openai(name: str, text: str, tool: Tool[..., Any]) -> dict[str, Any]:
    function = {"name": _checked(name), "description": _cut(text), "parameters": for_openai(tool.schema)}
    return {"type": "function", "function": function}


def _responses(name: str, text: str, tool: Tool[..., Any]) -> dict[str, Any]:
    shown = {"name": _checked(name), "description": text, "parameters": for_openai(tool.schema)}
    # Left unsaid, `strict` is on, and refuses optional parameters.
    return {"type": "function", **shown, "strict": False}


def _anthropic(name: str, text: str, tool: Tool[..., Any]) -> dict[str, Any]:
    schema = for_anthropic(tool.schema, foreign=isinstance(tool.parameters, RawParameters))
    shown = {"name": _checked(name), "description": text, "input_schema": schema}
    examples = _fitting(tool, schema) if tool.face.examples else []
    return shown | ({"input_examples": examples} if examples else {})


def _gemini(name: str, text: str, tool: Tool[..., Any]) -> dict[str, Any]:
    return {"name": _checked(name, _GEMINI_NAME), "description": text, "parameters": for_gemini(tool.schema)}


def _mcp(name: str, text: str, tool: Tool[..., Any]) -> dict[str, Any]:
    shown = {"name": name, "description": text, "inputSchema": as_object(tool.schema)}
    if isinstance(title := tool.face.display.get("title"), str):
        shown["title"] = title
    if tool.effects:
        shown["annotations"] = _annotations(tool)
    return shown


def _annotations(tool: Tool[..., Any]) -> dict[str, bool]:
    effects = tool.effects | tool.safety.optional_effects
    return {
        "readOnlyHint": effects <= {"read"},
        "destructiveHint": bool(effects & {"write", "execute"}),
        "idempotentHint": tool.repeatable,
        "openWorldHint": "network" in effects,
    }


def _fitting(tool: Tool[..., Any], schema: dict[str, JSON]) -> list[JSON]:
    """The examples that are arguments; one that does not fit would have the whole request refused."""
    import jsonschema_rs as js

    fits = js.validator_for(schema).is_valid
    return [example for example in copied(tool.face.examples) if isinstance(example, dict) and fits(example)]


def _checked(name: str, pattern: re.Pattern[str] = _NAME) -> str:
    if not pattern.match(name):
        raise Unshowable(f"the name {name!r} does not match {pattern.pattern.removesuffix(chr(92) + 'Z')}")
    return name


def _cut(text: str) -> str:
    return text if len(text) <= MAX_OPENAI_DESCRIPTION else f"{text[: MAX_OPENAI_DESCRIPTION - 3]}..."


_FORMATS: dict[str, tuple[str, Entry]] = {
    "openai": ("openai", _openai),
    "responses": ("openai", _responses),
    "anthropic": ("anthropic", _anthropic),
    "gemini": ("gemini", _gemini),
    "mcp": ("mcp", _mcp),
}
"""Whose options count, and how a tool is written."""


def _format(name: str) -> tuple[str, Entry]:
    if name not in _FORMATS:
        near = nearest(name, _FORMATS, 1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"There is no format {name!r}.{meant} Known are: {', '.join(_FORMATS)}.")
    return _FORMATS[name]
