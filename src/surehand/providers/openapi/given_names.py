"""Checks the names in `given` when a document is imported: a misspelt one would leave its parameter to the model."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from surehand.core.errors import DefinitionError
from surehand.core.names import nearest_names
from surehand.providers.openapi.bodies import read_body
from surehand.providers.openapi.document import Document, UnusableOperation
from surehand.providers.openapi.document_limits import too_large
from surehand.providers.openapi.given_fields import declared_fields
from surehand.providers.openapi.operations import Operation
from surehand.providers.openapi.parameters import PATH_VARIABLE, iter_parameters
from surehand.providers.openapi.plan import BODY_ARGUMENTS, legal_argument_name

MAX_CHECKED_NAMES = 5_000_000
"""Names of parameters and fields, of all operations together, among which those in `given` are looked for."""


def check_given_names(document: Document, operations: Iterable[Operation], given: Collection[str]) -> None:
    """Raise `DefinitionError` for a name that no operation has as a parameter or as a field of its body."""
    missing = set(given) - set(BODY_ARGUMENTS)
    known: set[str] = set()
    name_count = 0
    for operation in operations:
        if not missing:
            return
        names = _argument_names(document, operation)
        name_count += len(names)
        if name_count > MAX_CHECKED_NAMES:
            raise too_large("The document", f"more than {MAX_CHECKED_NAMES:,} names of parameters and fields")
        known |= names
        missing -= names
    if missing:
        wrong = min(missing)
        near = nearest_names(wrong, known, 1)
        raise DefinitionError(
            f"given has {wrong!r}, but no operation of the document has a parameter or field of that name.",
            fix=f"did you mean {near[0]!r}?" if near else "remove it.",
        )


def _argument_names(document: Document, operation: Operation) -> set[str]:
    """The names that parameters and fields may have: as written, and as arguments for models."""
    try:
        parameters = [(str(each.value["name"]), str(each.value["in"])) for each in iter_parameters(document, operation)]
        body = read_body(document, operation)
        fields = set() if body is None else declared_fields(document, body.schema)
    except UnusableOperation:  # it is left out, with this reason
        return set()
    names = {name for name, _ in parameters} | fields
    names |= set(PATH_VARIABLE.findall(operation.path))  # also those that the document forgot to describe
    legal = {legal_argument_name(name) for name in names}
    # Of two parameters with one name, the second has its place in the name of its argument.
    return names | legal | {f"{legal_argument_name(name)}_{place}" for name, place in parameters}
