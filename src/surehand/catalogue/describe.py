"""Descriptions of tools in the formats of model APIs and of MCP. A tool that an API would refuse is left out."""

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
    to_strict_schema,
)
from surehand.core.names import nearest_names
from surehand.core.raw_schema import RawParameters
from surehand.core.schema import JSON
from surehand.core.tool import Tool

log = logging.getLogger("surehand")

MAX_OPENAI_DESCRIPTION_CHARS = 1024
"""OpenAI's Chat Completions API refuses the whole request if one description is longer."""
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_GEMINI_TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}\Z")


class ToolDescriptions(list[dict[str, Any]]):
    """The entries of tools in one format; `left_out` maps the names of tools without an entry to the reason."""

    def __init__(self, entries: Iterable[dict[str, Any]] = (), left_out: dict[str, str] | None = None) -> None:
        super().__init__(entries)
        self.left_out = dict(left_out or {})

    def copy(self) -> ToolDescriptions:
        """A copy whose entries may be changed, for example to mark the last for a prompt cache. Schemas are shared."""
        return ToolDescriptions([_copy_two_levels(entry) for entry in self], self.left_out)


def _copy_two_levels(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: dict(value) if isinstance(value, dict) else value for key, value in entry.items()}


def describe_listings(listings: Iterable[Listing], format: str, *, workspace: str | None = None) -> ToolDescriptions:
    """The listings in one format: openai, responses, anthropic, gemini or mcp."""
    provider, build = _find_format(format)
    descriptions = ToolDescriptions()
    for listing in listings:
        try:
            descriptions.append(_build_entry(listing, provider, build, workspace))
        except UndescribableTool as error:
            descriptions.left_out[listing.name] = str(error)
        except Exception as error:  # noqa: BLE001 - one broken tool must not hide the others
            descriptions.left_out[listing.name] = f"it cannot be described ({type(error).__name__}: {error})"
    for name, reason in descriptions.left_out.items():
        log.warning("%s is left out of the tools for %s: %s.", name, format, reason.rstrip("."))
    return descriptions


EntryBuilder: TypeAlias = Callable[[str, str, Tool[..., Any]], dict[str, Any]]
"""Builds an entry from the wire name, the description and the tool."""


def _build_entry(listing: Listing, provider: str, build: EntryBuilder, workspace: str | None) -> dict[str, Any]:
    tool = listing.tool
    options = tool.presentation.provider_options.get(provider)
    if tool.kind == "hosted":
        return _hosted_entry(options, provider)
    entry = build(listing.wire_name, tool.description_source.render(workspace), tool)
    return _with_strict_parameters(_merge_provider_options(entry, copy_json(options))) if options else entry


def _with_strict_parameters(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry with parameters in OpenAI's strict form, if the tool's options ask for that."""
    function = entry.get("function", entry)
    if function.get("strict") is not True or "parameters" not in function:
        return entry
    strict = function | {"parameters": to_strict_schema(function["parameters"])}
    return entry | {"function": strict} if "function" in entry else strict


def _hosted_entry(options: Any, provider: str) -> dict[str, Any]:
    if not options:
        raise UndescribableTool(f"the model's provider runs it, and it has no options for {provider}")
    return dict(copy_json(options))


def _merge_provider_options(entry: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Add the tool's options for this provider. They cannot change the name, by which calls of the tool are found."""
    options.pop("name", None)
    if "function" not in entry:
        return entry | options
    top_level = {"type": options.pop("type")} if "type" in options else {}
    return entry | top_level | {"function": entry["function"] | options}


def _openai_entry(name: str, text: str, tool: Tool[..., Any]) -> dict[str, Any]:
    function = {
        "name": _validate_name(name),
        "description": _truncate_description(text),
        "parameters": to_openai_schema(tool.schema),
    }
    return {"type": "function", "function": function}


def _responses_entry(name: str, text: str, tool: Tool[..., Any]) -> dict[str, Any]:
    fields = {"name": _validate_name(name), "description": text, "parameters": to_openai_schema(tool.schema)}
    # The Responses API defaults to `strict`, which does not allow optional parameters.
    return {"type": "function", **fields, "strict": False}


def _anthropic_entry(name: str, text: str, tool: Tool[..., Any]) -> dict[str, Any]:
    schema = to_anthropic_schema(tool.schema, is_raw=isinstance(tool.parameters, RawParameters))
    entry = {"name": _validate_name(name), "description": text, "input_schema": schema}
    examples = _valid_examples(tool, schema) if tool.presentation.examples else []
    if examples:
        entry["input_examples"] = examples
    return entry


def _gemini_entry(name: str, text: str, tool: Tool[..., Any]) -> dict[str, Any]:
    return {
        "name": _validate_name(name, _GEMINI_TOOL_NAME),
        "description": text,
        "parameters": to_gemini_schema(tool.schema),
    }


def _mcp_entry(name: str, text: str, tool: Tool[..., Any]) -> dict[str, Any]:
    entry = {"name": name, "description": text, "inputSchema": to_object_schema(tool.schema)}
    title = tool.presentation.display.get("title")
    if isinstance(title, str):
        entry["title"] = title
    if tool.effects:
        entry["annotations"] = _mcp_annotations(tool)
    return entry


def _mcp_annotations(tool: Tool[..., Any]) -> dict[str, bool]:
    effects = tool.effects | tool.safety.optional_effects
    return {
        "readOnlyHint": effects <= {"read"},
        "destructiveHint": bool(effects & {"write", "execute"}),
        "idempotentHint": tool.repeatable,
        "openWorldHint": "network" in effects,
    }


def _valid_examples(tool: Tool[..., Any], schema: dict[str, JSON]) -> list[JSON]:
    """The examples that are valid arguments: the API refuses the whole request for one that is not."""
    import jsonschema_rs as js  # imported on first use: few tools have examples

    is_valid = js.validator_for(schema).is_valid
    examples = copy_json(tool.presentation.examples)
    return [example for example in examples if isinstance(example, dict) and is_valid(example)]


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
"""The provider whose options apply, and the builder of entries, by the name of a format."""


def _find_format(name: str) -> tuple[str, EntryBuilder]:
    if name not in _FORMATS:
        near = nearest_names(name, _FORMATS, 1)
        suggestion = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"There is no format {name!r}.{suggestion} Known formats: {', '.join(_FORMATS)}.")
    return _FORMATS[name]
