"""Description and parameters of an operation's tool, which compile the operation when they are first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from surehand.core.description import DescriptionSource
from surehand.core.errors import InvalidArguments
from surehand.core.raw_schema import RawParameters
from surehand.core.strict_json import parse_json
from surehand.providers.openapi.descriptions import describe_operation
from surehand.providers.openapi.document import UnusableOperation
from surehand.providers.openapi.operations import Operation
from surehand.providers.openapi.plan import OperationPlan


class OperationDescription(DescriptionSource):
    """The description of an operation, cleaned and cut when it is first read."""

    def __init__(self, operation: Operation) -> None:
        super().__init__(None, None, "")
        self._operation = operation
        self._text = ""

    def render(self, workspace: str | None = None) -> str:
        """The description for models."""
        if not self._text:
            self._text = describe_operation(self._operation.definition, self._operation.label)
        return self._text


class OperationParameters:
    """The parameters of an operation. Defining and listing its tool compiles nothing.

    Args:
        operation: the tool keeps it under any name that `prefixed`, `renamed` or the catalogue give it.
        load_plan: compiles the operation; raises `UnusableOperation`.
    """

    def __init__(self, operation: Operation, load_plan: Callable[[], OperationPlan]) -> None:
        self.operation = operation
        self._load_plan = load_plan
        self._parameters: RawParameters | None = None
        self._other_names: Mapping[str, str] = {}

    def compile(self) -> None:
        """Nothing: a broken operation must not keep a runtime from starting."""

    def _compiled(self) -> RawParameters:
        if self._parameters is None:
            plan = self._load_plan()
            self._other_names = plan.other_names
            self._parameters = plan.arguments
        return self._parameters

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema for models."""
        return self._compiled().schema

    @property
    def argument_names(self) -> set[str]:
        """The names of the validated arguments."""
        return self._compiled().argument_names

    def validate_json(self, text: str) -> dict[str, Any]:
        """Validated arguments from JSON text; raises `InvalidArguments`."""
        values = parse_json(text)
        if not isinstance(values, dict):
            raise InvalidArguments(f"The arguments must be a JSON object, not {type(values).__name__}.")
        return self.validate_mapping(values)

    def validate_mapping(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Validated arguments; a name as the document writes it, such as `filter[name]`, is understood, too."""
        try:
            parameters = self._compiled()
        except UnusableOperation as error:
            raise InvalidArguments(f"This operation cannot be called: {error}") from None
        if self._other_names and not self._other_names.keys().isdisjoint(values):
            known = parameters.argument_names
            values = {
                name if name in known else self._other_names.get(name, name): each for name, each in values.items()
            }
        return parameters.validate_mapping(values)
