"""Tool names of operations: legal, unique in the document, short enough for model APIs, and always the same.

A name depends on the operation alone, unless two operations would have the same one: then each gets a hash of its
method and path, so that neither the order of the document nor a filter decides which one keeps the plain name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import sha256

from surehand.core.names import MAX_WIRE_NAME_LENGTH, NAMESPACE_SEPARATOR
from surehand.providers.openapi.operations import Operation
from surehand.providers.tool_names import is_valid_local_name, nearest_local_name

HASH_LENGTH = 8
MIN_NAME_LENGTH = 16
"""Characters that an operation's name may have even under a very long namespace."""


def assign_names(
    operations: Iterable[Operation], namespace: str, reserved: frozenset[str] = frozenset()
) -> dict[str, Operation]:
    """The operations by their names, in order.

    Args:
        reserved: names that no operation may have.
    """
    max_length = max(MIN_NAME_LENGTH, MAX_WIRE_NAME_LENGTH - len(namespace) - len(NAMESPACE_SEPARATOR))
    plain_names = [(operation, _plain_name(operation)) for operation in operations]
    # Compared without case: a model may write a name in another one.
    counts = Counter(name.casefold() for _, name in plain_names)
    named: dict[str, Operation] = {}
    for operation, name in plain_names:
        if len(name) > max_length or counts[name.casefold()] > 1 or name in reserved:
            name = _hashed_name(name, operation, max_length)
        named[name] = operation
    return named


def _plain_name(operation: Operation) -> str:
    written = operation.operation_id
    if written and is_valid_local_name(written):
        return written
    return nearest_local_name(written or f"{operation.method.lower()}_{operation.path}")


def _hashed_name(name: str, operation: Operation, max_length: int) -> str:
    digest = sha256(operation.label.encode(errors="surrogatepass")).hexdigest()[:HASH_LENGTH]
    return f"{name[: max_length - HASH_LENGTH - 1].rstrip('_-')}_{digest}"
