"""Secrets of requests: where their values come from when a request is sent, and how they are kept out of sight.

A `Secret` is written as a text or as `${env.NAME}`. `SentSecrets` resolves it for a request, and remembers the value so
that responses and errors can be redacted; `MaskedSecrets` stands in for it in previews.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from surehand.core.errors import DefinitionError, ToolError
from surehand.core.redaction import REDACTION_MASK, Redactor
from surehand.http.errors import mark_unsent
from surehand.providers.rest.template import TextTemplate, VariableReference, parse_template

MIN_REDACTED_CHARS = 4
"""A shorter secret is not searched for in responses: it would be found in any text."""
_SECRET_NAME = re.compile(
    r"authorization|cookie|api[-_]?key|token|secret|passw|signature|(?:^|[-_])(?:key|auth|pat|jwt)\Z", re.IGNORECASE
)


def is_secret_name(name: str) -> bool:
    """Whether a header or query parameter of that name holds a secret."""
    return _SECRET_NAME.search(name) is not None


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret text with references to environment variables; its `repr` hides it."""

    template: TextTemplate = field(repr=False)

    @classmethod
    def parse(cls, text: Any, label: str) -> Secret:
        """Parse a secret; raises `DefinitionError`, which never shows the text."""
        if not isinstance(text, str) or not text:
            raise DefinitionError(f"{label} must be a text that is not empty.", fix="write ${env.NAME}.")
        try:
            template = parse_template(text)
        except DefinitionError as error:
            raise DefinitionError(f"{label} has a reference that cannot be read.", fix=error.fix) from None
        if not all(isinstance(reference, VariableReference) for reference in template.references):
            raise DefinitionError(f"{label} refers to an argument.", fix="a secret takes ${env.NAME} only.")
        return cls(template)

    @classmethod
    def literal(cls, text: str) -> Secret:
        """A secret that is used as it is, also if it looks like a reference."""
        return cls(TextTemplate((text,)))

    @property
    def variables(self) -> frozenset[str]:
        """The environment variables that the secret refers to."""
        return frozenset(each.name for each in self.template.references if isinstance(each, VariableReference))


class SecretSource(Protocol):
    """Gives the values of secrets and of environment variables."""

    def reveal(self, secret: Secret) -> str:
        """The value of a secret; raises `ToolError` if a variable is not set."""
        ...

    def variable(self, name: str) -> str:
        """The value of an environment variable; raises `ToolError` if it is not set."""
        ...


class SentSecrets:
    """Resolves secrets for requests, and adds each value to a redactor."""

    def __init__(self, redactor: Redactor, environment: Mapping[str, str] | None = None) -> None:
        self._redactor = redactor
        self._environment = environment

    def reveal(self, secret: Secret) -> str:
        """The value of a secret."""
        value = secret.template.render(_Variables(self), "a secret")
        self.remember(value)
        return value

    def variable(self, name: str) -> str:
        """The value of an environment variable."""
        value = read_variable(name, self._environment)
        self.remember(value)
        return value

    def remember(self, *values: str) -> None:
        """Redact values in all responses from now on."""
        self._redactor.add(value for value in values if len(value) >= MIN_REDACTED_CHARS)


class MaskedSecrets:
    """Stands in for secrets in a preview; a variable that is not set is an error here, too."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment

    def reveal(self, secret: Secret) -> str:
        """The mask."""
        for name in secret.variables:
            read_variable(name, self._environment)
        return REDACTION_MASK

    def variable(self, name: str) -> str:
        """The mask."""
        read_variable(name, self._environment)
        return REDACTION_MASK


@dataclass(frozen=True, slots=True)
class _Variables:
    """The values of a template without arguments."""

    secrets: SecretSource

    @property
    def arguments(self) -> Mapping[str, Any]:
        return {}

    def variable(self, name: str) -> str:
        return self.secrets.variable(name)


def read_variable(name: str, environment: Mapping[str, str] | None = None) -> str:
    """The value of an environment variable, read now."""
    value = (os.environ if environment is None else environment).get(name)
    if not value:
        raise mark_unsent(ToolError(f"The environment variable {name} is not set. The developer of the tool sets it."))
    return value
