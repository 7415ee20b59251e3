"""A document with the operations that a provider offers: chosen, named and checked, but not compiled.

`import_document` takes seconds for a large document, and blocks: the provider runs it in a thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from surehand.core.errors import DefinitionError
from surehand.http.target import HttpTarget
from surehand.providers.openapi.document import Document, UnusableOperation
from surehand.providers.openapi.given_names import check_given_names
from surehand.providers.openapi.names import assign_names
from surehand.providers.openapi.operation_check import OperationChecker
from surehand.providers.openapi.operations import Operation, collect_operations
from surehand.providers.openapi.options import OpenApiOptions
from surehand.providers.openapi.search_tools import SEARCH_TOOL_NAMES
from surehand.providers.openapi.security import SecuritySchemes
from surehand.providers.openapi.servers import Servers
from surehand.providers.openapi.trusted_hosts import TrustedHosts, find_trusted_hosts
from surehand.providers.rest.auth import token_targets

log = logging.getLogger("surehand")
MAX_SHOWN_OPERATIONS = 40
"""Operations up to which `show="auto"` shows a model all of them."""
MAX_LABEL_CHARS = 300
"""Characters of a path in the list of what is left out."""


@dataclass(frozen=True, slots=True, eq=False)
class ImportedDocument:
    """What a provider offers of a document."""

    document: Document
    servers: Servers
    security: SecuritySchemes
    trusted_hosts: TrustedHosts
    operations: dict[str, Operation]
    """By the names of their tools."""
    excluded: frozenset[str]
    """The names of operations that the filters leave out."""
    skipped: list[tuple[str, str]]
    """Operations that cannot be used, such as `GET /pets`, each with the reason."""
    has_search: bool
    """Whether a model is shown tools to search the operations, and not all of them."""

    @property
    def title(self) -> str:
        """The title of the document on one line; empty if it has none."""
        info = self.document.root.get("info")
        title = info.get("title") if isinstance(info, dict) else None
        return " ".join(title[:1_000].split())[:100] if isinstance(title, str) else ""

    @property
    def main_address(self) -> str:
        """The address of operations without a server of their own; empty if the document has none."""
        return self.servers.main_target().url if self.servers.has_main_target else ""

    def private_targets(self) -> list[HttpTarget]:
        """The targets of operations and token endpoints that may be on private addresses."""
        targets = {self.servers.target_of(each) for each in self.operations.values()}
        tokens = [target for auth in self.security.auths for target in token_targets(auth)]
        return [target for target in (*targets, *tokens) if self.trusted_hosts.may_be_private(target)]


def import_document(document: Document, options: OpenApiOptions) -> ImportedDocument:
    """Choose, name and check the operations of a document. Raises `DefinitionError`."""
    addresses = [options.server, *options.token_urls]
    return _Import(document, options, find_trusted_hosts(document, addresses, options.trusted_hosts)).run()


class _Import:
    def __init__(self, document: Document, options: OpenApiOptions, trusted_hosts: TrustedHosts) -> None:
        self._document = document
        self._options = options
        self._trusted_hosts = trusted_hosts
        self._servers = Servers(document, options.server, options.server_variables)
        self._security = SecuritySchemes(document, options.auth)

    def run(self) -> ImportedDocument:
        self._check_token_endpoints()
        collected = collect_operations(self._document)
        check_given_names(self._document, collected.operations, self._options.given)
        self._servers.check_variables(collected.operations)
        selected = self._select(collected.operations)
        has_search = self._has_search(len(selected))
        reserved = SEARCH_TOOL_NAMES if has_search else frozenset[str]()
        # Named before the selection: a filter must not change the name of an operation.
        operations_by_name = assign_names(collected.operations, self._options.namespace, reserved)
        selected_ids = set(map(id, selected))
        checker = OperationChecker(self._document)
        operations: dict[str, Operation] = {}
        skipped = list(collected.skipped)
        for name, operation in operations_by_name.items():
            if id(operation) not in selected_ids:
                continue
            problem = checker.find_problem(operation) or self._find_server_problem(operation)
            if problem:
                skipped.append((operation.label[:MAX_LABEL_CHARS], problem))
            else:
                operations[name] = operation
        if selected and (not operations or self._servers.has_main_target):
            self._check_main_server(selected)
        return ImportedDocument(
            self._document,
            self._servers,
            self._security,
            self._trusted_hosts,
            operations,
            excluded=frozenset(
                name for name, operation in operations_by_name.items() if id(operation) not in selected_ids
            ),
            skipped=skipped,
            has_search=has_search,
        )

    def _select(self, operations: Iterable[Operation]) -> list[Operation]:
        selection = self._options.selection
        for pattern in selection.unmatched(operations):
            log.warning("%s has no operation that matches %r of include or exclude.", self._options.namespace, pattern)
        return [operation for operation in operations if selection.accepts(operation)]

    def _has_search(self, count: int) -> bool:
        show = self._options.show
        return show == "search" or (show == "auto" and count > MAX_SHOWN_OPERATIONS)

    def _find_server_problem(self, operation: Operation) -> str:
        """Why an operation cannot be sent to its server; empty if it can."""
        try:
            target = self._servers.target_of(operation)
        except UnusableOperation as error:
            return str(error)
        if self._trusted_hosts.may_receive_secrets(target) or self._security.auth_for(operation) is None:
            return ""
        address = f"{target.scheme}://{target.authority}"
        return f"The fetched document sends the secrets of `auth` to {address}, which no option names."

    def _check_main_server(self, selected: Iterable[Operation]) -> None:
        """Raise if the server that the document names for all operations cannot be used, or must not get secrets."""
        try:
            main = self._servers.main_target()
        except UnusableOperation as error:
            fix = 'give server="https://api.example.com".'
            raise DefinitionError(f"{self._options.namespace}: {error}", fix=fix) from None
        if self._trusted_hosts.may_receive_secrets(main):
            return
        for operation in selected:
            problem = self._find_server_problem(operation)
            if problem and self._servers.target_of(operation) == main:
                fix = f'give server="{main.url}" or trusted_hosts=["{main.host}"], if the secrets are meant for it.'
                raise DefinitionError(f"{self._options.namespace}: {problem}", fix=fix)

    def _check_token_endpoints(self) -> None:
        """Raise if a fetched document chooses where the secret of a client is sent."""
        for auth in self._security.auths:
            for target in token_targets(auth):
                if not self._trusted_hosts.may_receive_secrets(target):
                    raise DefinitionError(
                        f"{self._options.namespace}: the fetched document sends the client secret to {target.url}, "
                        "which no option names.",
                        fix="give it as token_url, or its host in trusted_hosts, if the secret is meant for it.",
                    )
