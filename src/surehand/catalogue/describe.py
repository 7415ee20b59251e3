"""Describing: the catalogue in the words of each model API. A tool that an API would refuse is left out."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from surehand.catalogue.gemini_schema import to_gemini_schema
from surehand.catalogue.listing import Listing
from surehand.catalogue.model_schemas import (
    UndescribableTool,
    copy_json,
    to_anthropic_schema,
    to_object_schema,
    to_openai_schema,
)
from surehand.core.names import nearest_names
from surehand.core.raw_schema import RawParameters
from surehand.core.schema import JSON
from surehand.core.tool import Tool

log = logging.getLogger("surehand")

MAX_OPENAI_DESCRIPTION_CHARS = 1024
"""Chat Completions refuses the whole request for a longer one."""
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_GEMINI_TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}\Z")


class ToolDescriptions(list[dict[str, Any]]):
    """Tools as a model API wants them; `left_out` says which are missing, and why."""

    def __init__(self, entries: Iterable[dict[str, Any]] = (), left_out: dict[str, str] | None = None) -> None:
        super().__init__(entries)
        self.left_out = dict(left_out or {})

    def copy(self) -> ToolDescriptions:
        """A copy whose entries may be added to, as one marks the last for a prompt cache; schemas are shared."""
        return ToolDescriptions([_copy_two_levels(entry) for entry in self], self.left_out)


def _copy_two_levels(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: dict(value) if isinstance(value, dict) else value for key, value in entry.items()}


def describe_listings(listings: Iterable[Listing], format: str, *, workspace: str | None = None) -> ToolDescriptions:
    """Every listing in one format: openai, responses, anthropic, gemini or mcp."""
    provider, entry = _find_format(format)
    described = ToolDescriptions()
    for listing in listings:
        try:
            described.append(_build_entry(listing, provider, entry, workspace))
        except UndescribableTool as reason:
            described.left_out[listing.name] = str(reason)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one tool, the others are still shown
            described.left_out[listing.name] = f"it cannot be described ({type(error).__name__}: {error})"
    for name, why in described.left_out.items():
        log.warning("%s is left out of the tools for %s: %s.", name, format, why.rstrip("."))
    return described


EntryBuilder: TypeAlias = Callable[[str, str, Tool[..., Any]], dict[str, Any]]
"""From the name on the wire, the description and the tool to what the API is shown."""


def _build_entry(listing: Listing, provider: str, build: EntryBuilder, workspace: str | None) -> dict[str, Any]:
    tool, options = listing.tool, listing.tool.presentation.provider_options.get(provider)
    if tool.kind == "hosted":
        return _hosted_entry(options, provider)
    shown = build(listing.wire_name, tool.description_source.render(workspace), tool)
    return _merge_provider_options(shown, copy_json(options)) if options else shown


def _hosted_entry(options: Any, provider: str) -> dict[str, Any]:
    if not options:
        raise UndescribableTool(f"the model's provider runs it, and it has no options for {provider}")
    return dict(copy_json(options))


def _merge_provider_options(entry: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """A tool's own options for a provider, beside its name; never the name, which is how its calls are found."""
    options.pop("name", None)
    if "function" not in entry:
        return entry | options
    top = {key: options.pop(key) for key in list(options) if key == "type"}
    return entry | top | {"function": entry["function"] | options}


def _openai_entry(name: str, text: str, tool: Tool[..., Any]) -> dict[str, Any]:
    function = {
        "name": _validate_name(name),
        "description": _truncate_description(text),
        "parameters": to_openai_schema(tool.schema),
    }
    return {"type": "function", "function": function}


def _responses_entry(name: str, text: str, tool: Tool[..., Any]) -> dict[str, Any]:
    shown = {"name": _validate_name(name), "description": text, "parameters": to_openai_schema(tool.schema)}
    # Left unsaid, `strict` is on, and refuses optional parameters.
    return {"type": "function", **shown, "strict": False}


def _anthropic_entry(name: str, text: str, tool: Tool[..., Any]) -> dict[str, Any]:
    schema = to_anthropic_schema(tool.schema, is_raw=isinstance(tool.parameters, RawParameters))
    shown = {"name": _validate_name(name), "description": text, "input_schema": schema}
    examples = _valid_examples(tool, schema) if tool.presentation.examples else []
    return shown | ({"input_examples": examples} if examples else {})


def _gemini_entry(name: str, text: str, tool: Tool[..., Any]) -> dict[str, Any]:
    return {
        "name": _validate_name(name, _GEMINI_TOOL_NAME),
        "description": text,
        "parameters": to_gemini_schema(tool.schema),
    }


def _mcp_entry(name: str, text: str, tool: Tool[..., Any]) -> dict[str, Any]:
    shown = {"name": name, "description": text, "inputSchema": to_object_schema(tool.schema)}
    if isinstance(title := tool.presentation.display.get("title"), str):
        shown["title"] = title
    if tool.effects:
        shown["annotations"] = _mcp_annotations(tool)
    return shown


def _mcp_annotations(tool: Tool[..., Any]) -> dict[str, bool]:
    effects = tool.effects | tool.safety.optional_effects
    return {
        "readOnlyHint": effects <= {"read"},
        "destructiveHint": bool(effects & {"write", "execute"}),
        "idempotentHint": tool.repeatable,
        "openWorldHint": "network" in effects,
    }


def _valid_examples(tool: Tool[..., Any], schema: dict[str, JSON]) -> list[JSON]:
    """The examples that are arguments; one that does not fit would have the whole request refused."""
    import jsonschema_rs as js

    fits = js.validator_for(schema).is_valid
    return [example for example in copy_json(tool.presentation.examples) if isinstance(example, dict) and fits(example)]


def _validate_name(name: str, pattern: re.Pattern[str] = _TOOL_NAME) -> str:
    if not pattern.match(name):
        raise UndescribableTool(f"the name {name!r} does not match {pattern.pattern.removesuffix(chr(92) + 'Z')}")
    return name


def _truncate_description(text: str) -> str:
    return text if len(text) <= MAX_OPENAI_DESCRIPTION_CHARS else f"{text[: MAX_OPENAI_DESCRIPTION_CHARS - 3]}..."


_FORMATS: dict[str, tuple[str, EntryBuilder]] = {
    "openai": ("openai", _openai_entry),
    "responses": ("openai", _responses_entry),
    "anthropic": ("anthropic", _anthropic_entry),
    "gemini": ("gemini", _gemini_entry),
    "mcp": ("mcp", _mcp_entry),
}
"""Whose options count, and how a tool is written."""


def _find_format(name: str) -> tuple[str, EntryBuilder]:
    if name not in _FORMATS:
        near = nearest_names(name, _FORMATS, 1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"There is no format {name!r}.{meant} Known are: {', '.join(_FORMATS)}.")
    return _FORMATS[name]
