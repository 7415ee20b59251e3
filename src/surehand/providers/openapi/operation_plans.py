"""The plans of one document's operations, each compiled when it is first described or called."""

from __future__ import annotations

from collections.abc import Collection

from surehand.providers.openapi.document import UnusableOperation
from surehand.providers.openapi.imported_document import ImportedDocument
from surehand.providers.openapi.plan import OperationPlan, compile_plan
from surehand.providers.openapi.schema import SchemaConverter


class OperationPlans:
    """Compiles plans, and remembers which operations turned out to be unusable.

    Args:
        given: names of parameters and fields that the developer fills.
    """

    def __init__(self, imported: ImportedDocument, given: Collection[str]) -> None:
        self._imported = imported
        self._given = given
        self._converter = SchemaConverter(imported.document)
        self._plans: dict[str, OperationPlan] = {}
        self._unusable: set[str] = set()

    @property
    def unusable_count(self) -> int:
        """How many operations turned out to be unusable so far."""
        return len(self._unusable)

    def get(self, name: str) -> OperationPlan:
        """The plan of an operation. Raises `UnusableOperation`, and notes it in `skipped` of the document."""
        if name not in self._plans:
            try:
                self._plans[name] = self._compile(name)
            except UnusableOperation as error:
                if name not in self._unusable:
                    self._unusable.add(name)
                    self._imported.skipped.append((self._imported.operations[name].label, str(error)))
                raise
        return self._plans[name]

    def _compile(self, name: str) -> OperationPlan:
        imported = self._imported
        operation = imported.operations[name]
        target = imported.servers.target_of(operation)
        auth = imported.security.auth_for(operation)
        plan = compile_plan(imported.document, self._converter, operation, target=target, auth=auth, given=self._given)
        given = (*plan.given_arguments, *plan.given_body_fields)
        if given and not imported.trusted_hosts.may_receive_secrets(target):
            names = ", ".join(given)
            raise UnusableOperation(
                f"The fetched document sends {names} of `given` to {target.host}, which no option names."
            )
        return plan
