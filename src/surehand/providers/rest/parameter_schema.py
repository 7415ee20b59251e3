"""The parameters of a REST tool and the references of its request: whether they fit, and one from the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from surehand.core.errors import DefinitionError
from surehand.core.names import nearest_names
from surehand.core.raw_schema import is_json_schema
from surehand.providers.rest.request_template import RequestTemplate, UnusedArguments
from surehand.providers.rest.template import ArgumentReference, VariableReference

_OPEN_SCHEMA_KEYWORDS = frozenset({"$ref", "allOf", "anyOf", "oneOf", "patternProperties", "additionalProperties"})
"""Keywords by which a schema may have more properties than those that it lists."""


def derive_schema(template: RequestTemplate) -> dict[str, Any]:
    """The schema of the arguments that a request refers to, where the developer gives none: texts, mostly."""
    paths = [each.path for each in template.references if isinstance(each, ArgumentReference) and each.path]
    structured = {path[0] for path in paths if len(path) > 1}
    return {
        "type": "object",
        "properties": {name: {} if name in structured else {"type": "string"} for name in template.argument_names},
        "required": list(dict.fromkeys(str(path[0]) for path in paths)),
    }


def check_references(template: RequestTemplate, schema: Mapping[str, Any]) -> None:
    """Raise for parameters that are no JSON Schema, and for references that no argument can fill."""
    if not is_json_schema(schema):
        raise DefinitionError(
            "The parameters are not a JSON Schema.",
            fix='write {"type": "object", "properties": {"city": {"type": "string"}}}.',
        )
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    bare_names = {each.name for each in template.references if isinstance(each, VariableReference) and each.is_bare}
    for name in sorted(bare_names & known.keys()):
        raise DefinitionError(
            f"${{{name}}} is an environment variable, and {name} is also a parameter.",
            fix=f"write ${{parameters.{name}}} or ${{env.{name}}}.",
        )
    if not known or not _OPEN_SCHEMA_KEYWORDS.isdisjoint(key for key, value in schema.items() if value is not False):
        return
    for name in template.argument_names:
        if name not in known:
            near = nearest_names(name, known, 1)
            fix = f"did you mean {near[0]!r}?" if near else f"the parameters are {', '.join(known)}."
            raise DefinitionError(f"The request refers to {name!r}, which is no parameter.", fix=fix)


def without_empty_body(template: RequestTemplate, schema: Mapping[str, Any]) -> RequestTemplate:
    """The template without a body, if that would hold the arguments that nothing else uses, and there are none."""
    properties = schema.get("properties")
    names = set(properties) if isinstance(properties, Mapping) else set()
    may_have_more = not names or not _OPEN_SCHEMA_KEYWORDS.isdisjoint(schema)
    if isinstance(template.body, UnusedArguments) and not may_have_more and names <= template.used_names:
        return replace(template, body=None)
    return template


def schema_defaults(parameters: Any) -> dict[str, Any]:
    """The default values of the parameters, which references use where a call gives none."""
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    return {
        name: schema["default"]
        for name, schema in properties.items()
        if isinstance(schema, Mapping) and "default" in schema
    }
