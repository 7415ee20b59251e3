"""Plans of operations: all that is needed to call one, compiled when it is first described or called.

A plan says which argument of the model goes where in the request, and holds the JSON Schema of the arguments.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from surehand.core.errors import DefinitionError
from surehand.core.raw_schema import RawParameters
from surehand.http.target import HttpTarget
from surehand.providers.openapi.accept_header import accept_header
from surehand.providers.openapi.bodies import is_file_schema, read_body
from surehand.providers.openapi.body import BodyPlan
from surehand.providers.openapi.descriptions import clean_description
from surehand.providers.openapi.document import Document, Located, UnusableOperation
from surehand.providers.openapi.document_limits import MAX_ARGUMENTS, MAX_SCHEMAS_PER_PART
from surehand.providers.openapi.examples import with_examples
from surehand.providers.openapi.flat_body import FlatBody, flatten_body
from surehand.providers.openapi.given_fields import declared_fields, remove_fields
from surehand.providers.openapi.operations import Operation
from surehand.providers.openapi.parameters import Parameter, read_parameters
from surehand.providers.openapi.schema import SchemaConverter
from surehand.providers.openapi.work_limit import WorkLimit
from surehand.providers.rest.auth import Auth

DEFINITION_BUDGETS = (16_000, 4_000, 1_000, 0)
"""Characters of `$defs` that a model is shown; the next smaller one is tried if validating would cost too much."""
MAX_ARGUMENT_NAME_LENGTH = 64
_ILLEGAL_ARGUMENT_CHARACTERS = re.compile(r"[^A-Za-z0-9_.-]+")
_PLACE_ORDER = {"path": 0, "query": 1, "querystring": 2, "header": 3, "cookie": 4}
BODY_ARGUMENTS = ("body", "request_body")
"""The argument that is the whole body; the second name if a parameter has the first."""
_FILE_HINT = "Path of a file in the workspace, or the handle of a stored output."


@dataclass(frozen=True, slots=True)
class OperationPlan:
    """How one operation is called."""

    operation: Operation
    target: HttpTarget
    """The base address, to whose path that of the operation is appended."""
    auth: Auth | None
    arguments: RawParameters
    """What a model may give: a compiled JSON Schema, without what `given` fills."""
    parameters: Mapping[str, Parameter]
    """By the names of the arguments."""
    body: BodyPlan | None
    body_argument: str | None
    """The argument that is the whole body; None if there is no body, or if its fields are arguments."""
    body_fields: Mapping[str, str] = field(default_factory=dict)
    """The fields of the body by the names of their arguments."""
    required_fields: frozenset[str] = frozenset()
    """Arguments that must be given if any field of an optional body is."""
    given_arguments: Mapping[str, str] = field(default_factory=dict)
    """Arguments that the developer's `given` fills, each with its key there; models do not see them."""
    given_body_fields: Mapping[str, str] = field(default_factory=dict)
    """The same for fields of a body that is one argument, by their names in the document."""
    accept: str = ""
    """The `Accept` header; empty for anything."""
    other_names: Mapping[str, str] = field(default_factory=dict)
    """Names as the document writes them, for arguments that had to be renamed."""

    @property
    def file_arguments(self) -> frozenset[str]:
        """Arguments that name files."""
        if self.body is None:
            return frozenset()
        if self.body.is_file and self.body_argument is not None:
            return frozenset({self.body_argument})
        return frozenset(name for name, written in self.body_fields.items() if written in self.body.file_fields)


def compile_plan(
    document: Document,
    converter: SchemaConverter,
    operation: Operation,
    *,
    target: HttpTarget,
    auth: Auth | None,
    given: Collection[str],
) -> OperationPlan:
    """Compile the plan of an operation. Raises `UnusableOperation`.

    Args:
        given: names of parameters and fields that the developer fills.
    """
    return _PlanCompiler(document, converter, operation, frozenset(given)).compile(target, auth)


class _PlanCompiler:
    def __init__(
        self, document: Document, converter: SchemaConverter, operation: Operation, given: frozenset[str]
    ) -> None:
        self._document = document
        self._converter = converter
        self._operation = operation
        self._given = given
        self._parameters: dict[str, Parameter] = {}
        self._body_fields: dict[str, str] = {}
        self._given_arguments: dict[str, str] = {}
        self._given_body_fields: dict[str, str] = {}
        self._other_names: dict[str, str] = {}
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []
        self._refs: set[str] = set()
        self._work = WorkLimit()

    def compile(self, target: HttpTarget, auth: Auth | None) -> OperationPlan:
        parameters = read_parameters(self._document, self._operation)
        for parameter in sorted(parameters, key=lambda each: _PLACE_ORDER[each.place]):
            self._add_parameter(parameter)
        body = read_body(self._document, self._operation)
        body_argument: str | None = None
        required_fields: frozenset[str] = frozenset()
        if body is not None:
            flat = self._flatten(body)
            if flat is None:
                body_argument = self._add_whole_body(body)
            else:
                required_fields = self._add_fields(body, flat)
        return OperationPlan(
            operation=self._operation,
            target=target,
            auth=auth,
            arguments=self._compile_arguments(),
            parameters=self._parameters,
            body=body,
            body_argument=body_argument,
            body_fields=self._body_fields,
            required_fields=required_fields,
            given_arguments=self._given_arguments,
            given_body_fields=self._given_body_fields,
            accept=accept_header(self._document, self._operation),
            other_names=self._other_names,
        )

    # Parameters

    def _add_parameter(self, parameter: Parameter) -> None:
        name = self._free_name(parameter.name, parameter.place)
        self._parameters[name] = parameter
        schema = self._convert(parameter.schema)
        description = clean_description(parameter.description)
        if description:
            schema = {**schema, "description": description}
        schema = with_examples(schema, parameter.examples, self._work)
        self._add_argument(name, parameter.name, schema, is_required=parameter.required)

    def _add_argument(self, name: str, written: str, schema: dict[str, Any], *, is_required: bool) -> None:
        key = next((each for each in (written, name) if each in self._given), None)
        if key is not None:
            self._given_arguments[name] = key
            return
        if name != written:
            self._other_names.setdefault(written, name)
        self._properties[name] = schema
        if is_required:
            self._required.append(name)

    def _free_name(self, written: str, place: str) -> str:
        """The name of an argument: as the document writes it, if model APIs accept that."""
        name = legal_argument_name(written)
        used_names = {*self._parameters, *self._body_fields}
        if name in used_names:
            name = f"{name[: MAX_ARGUMENT_NAME_LENGTH - len(place) - 1]}_{place}"
        number = 2
        while name in used_names:
            name = f"{legal_argument_name(written)[: MAX_ARGUMENT_NAME_LENGTH - 4]}_{number}"
            number += 1
        return name

    def _convert(self, schema: Located) -> dict[str, Any]:
        converted, refs = self._converter.convert(schema, self._work)
        self._refs |= refs
        return converted

    # Body

    def _flatten(self, body: BodyPlan) -> FlatBody | None:
        """The fields of the body, if each can be an argument; None if its names clash with those of parameters."""
        if body.kind not in ("json", "form", "multipart"):
            return None
        flat = flatten_body(self._document, body.schema)
        if flat is None:
            return None
        names = [legal_argument_name(name) for name in flat.fields]
        has_clash = len(set(names)) < len(names) or not self._parameters.keys().isdisjoint(names)
        return None if has_clash else flat

    def _remove_given_fields(self, body: BodyPlan) -> Located:
        """The schema of a body that is one argument, without the fields that `given` fills."""
        if not self._given or body.kind not in ("json", "form", "multipart"):
            return body.schema
        for name in declared_fields(self._document, body.schema):
            key = next((each for each in (name, legal_argument_name(name)) if each in self._given), None)
            if key is not None:
                self._given_body_fields[name] = key
        if not self._given_body_fields:
            return body.schema
        return remove_fields(self._document, body.schema, self._given_body_fields)

    def _add_fields(self, body: BodyPlan, flat: FlatBody) -> frozenset[str]:
        for written, schemas in flat.fields.items():
            name = legal_argument_name(written)
            self._body_fields[name] = written
            converted = [self._convert(each) for each in schemas]
            schema = converted[0] if len(converted) == 1 else {"allOf": converted}
            if written in body.file_fields:
                schema = _file_schema(schema)
            else:
                schema = with_examples(schema, _field_examples(body.examples, written), self._work)
            self._add_argument(name, written, schema, is_required=body.required and written in flat.required)
        by_field = {written: name for name, written in self._body_fields.items()}
        return frozenset(by_field[written] for written in flat.required if by_field[written] in self._properties)

    def _add_whole_body(self, body: BodyPlan) -> str:
        name = next(each for each in BODY_ARGUMENTS if each not in self._parameters)
        is_text = body.kind == "text"
        if body.is_file or (is_text and is_file_schema(self._document, body.schema)):
            schema: dict[str, Any] = {"type": "string", "description": _FILE_HINT if body.is_file else ""}
        elif is_text:
            schema = self._text_schema(body)
        else:
            schema = self._convert(self._remove_given_fields(body))
        description = " ".join(filter(None, (clean_description(body.description), schema.get("description"))))
        if description:
            schema = {**schema, "description": description}
        if not body.is_file:
            schema = with_examples(schema, self._examples_without_given(body), self._work)
        self._add_argument(name, name, schema, is_required=body.required)
        return name

    def _examples_without_given(self, body: BodyPlan) -> tuple[Any, ...]:
        hidden = self._given_body_fields
        return tuple(
            {name: value for name, value in each.items() if name not in hidden} if isinstance(each, dict) else each
            for each in body.examples
        )

    def _text_schema(self, body: BodyPlan) -> dict[str, Any]:
        """A text: also where the document describes the parts of it, as it may for XML."""
        converted = self._convert(body.schema)
        if converted.get("type") in ("string", "number", "integer", "boolean"):
            return converted
        return {"type": "string", "description": f"A text of the type {body.media_type}."}

    # Schema

    def _compile_arguments(self) -> RawParameters:
        if len(self._parameters) + len(self._body_fields) > MAX_ARGUMENTS:
            raise UnusableOperation(f"The operation has more than {MAX_ARGUMENTS:,} parameters and fields.")
        # Without definitions, a smaller number of them makes no difference.
        for budget in DEFINITION_BUDGETS if self._refs else DEFINITION_BUDGETS[:1]:
            arguments = self._try_compile(self._schema_with(self._properties, budget))
            if arguments is not None:
                return arguments
        described = {name: _only_description(each) for name, each in self._properties.items()}
        arguments = self._try_compile(self._schema_with(described, 0, refs=frozenset()))
        if arguments is None:
            raise UnusableOperation("The names and descriptions of its parameters and fields are too long together.")
        return arguments

    def _try_compile(self, schema: dict[str, Any]) -> RawParameters | None:
        """The schema, ready to validate; None if it is too large, or validating a value might take seconds."""
        arguments = RawParameters(schema, where=self._operation.label)
        try:
            arguments.compile()
        except DefinitionError:
            return None
        return arguments if arguments.cost.schemas_per_part <= MAX_SCHEMAS_PER_PART else None

    def _schema_with(
        self, properties: dict[str, Any], budget: int, *, refs: Collection[str] | None = None
    ) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if self._required:
            schema["required"] = self._required
        schema["additionalProperties"] = False
        definitions = self._converter.collect_definitions(self._refs if refs is None else refs, budget)
        if definitions:
            schema["$defs"] = definitions
        return schema


def legal_argument_name(written: str) -> str:
    """The nearest name that model APIs accept: `filter[name]` as `filter_name`."""
    cleaned = _ILLEGAL_ARGUMENT_CHARACTERS.sub("_", written).strip("_") if not written.isidentifier() else written
    return (cleaned or "value")[:MAX_ARGUMENT_NAME_LENGTH]


def _file_schema(schema: dict[str, Any]) -> dict[str, Any]:
    description = " ".join(filter(None, (schema.get("description"), _FILE_HINT)))
    if schema.get("type") == "array":
        return {"type": "array", "items": {"type": "string"}, "description": description}
    return {"type": "string", "description": description}


def _field_examples(examples: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    """The examples of one field, in those of the whole body."""
    return tuple(each[name] for each in examples if isinstance(each, dict) and each.get(name) is not None)


def _only_description(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": schema["description"]} if "description" in schema else {}
