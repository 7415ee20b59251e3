"""Secrets of requests: where their values come from when a request is sent, and how they are kept out of sight.

A `Secret` is written as a text or as `${env.NAME}`. `SentSecrets` resolves it for a request, and remembers the value so
that responses and errors can be redacted; `MaskedSecrets` stands in for it in previews.
"""

from __future__ import annotations

import logging
import os
import re
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from surehand.core.errors import DefinitionError, ToolError
from surehand.core.redaction import REDACTION_MASK, Redactor
from surehand.http.errors import mark_unsent
from surehand.providers.rest.template import TextTemplate, VariableReference, parse_template

log = logging.getLogger("surehand")

MAX_REMEMBERED_SECRETS = 128
"""Secrets of one sender that are masked at the same time."""
MIN_SECRET_CHARS = 8
"""A secret of at least this length is masked wherever it stands; a shorter one only where it stands alone."""
MIN_REDACTED_CHARS = 4
"""A shorter secret is not masked in responses, and a warning is logged: any text has such words."""
_SECRET_NAME = re.compile(
    r"authorization|cookie|api[-_]?key|token|secret|passw|signature|(?:^|[-_])(?:key|auth|pat|jwt)\Z", re.IGNORECASE
)


_AUTH_SCHEMES = frozenset({"basic", "bearer", "token", "apikey", "key", "digest"})
"""First words of an Authorization header, which are no secrets."""


def without_auth_scheme(text: str) -> str:
    """The secret in the value of a header such as `Bearer abc`."""
    scheme, _, rest = text.strip().partition(" ")
    return rest.strip() if scheme.lower() in _AUTH_SCHEMES else text.strip()


def encode_basic(username: str, password: str) -> str:
    """User name and password as basic authentication encodes them."""
    return b64encode(f"{username}:{password}".encode()).decode()


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

    def read_name(self, name: Secret) -> str:
        """The value of a user name or client id, which is not masked in what comes back."""
        ...

    def basic_credentials(self, username: Secret, password: Secret) -> str:
        """User name and password as basic authentication encodes them."""
        ...

    def variable(self, name: str) -> str:
        """The value of an environment variable; raises `ToolError` if it is not set."""
        ...


class SentSecrets:
    """Resolves secrets for requests, and masks those that were used lately in what comes back."""

    def __init__(self, environment: Mapping[str, str] | None = None, known_secrets: Iterable[str] = ()) -> None:
        self._environment = environment
        self._recent: OrderedDict[str, None] = OrderedDict()
        self.redactor = Redactor()
        """Masks the secrets; another object once old secrets have been forgotten."""
        self._has_warned = False
        self.remember(*known_secrets)

    def reveal(self, secret: Secret) -> str:
        """The value of a secret."""
        value = self.read_name(secret)
        self.remember(value)
        return value

    def read_name(self, name: Secret) -> str:
        """The value of a user name or client id."""
        return name.template.render(_Variables(self._environment), "a secret")

    def basic_credentials(self, username: Secret, password: Secret) -> str:
        """User name and password as basic authentication encodes them, which may be longer than the password."""
        credentials = encode_basic(self.read_name(username), self.reveal(password))
        self.remember(credentials)
        return credentials

    def variable(self, name: str) -> str:
        """The value of an environment variable."""
        value = read_variable(name, self._environment)
        self.remember(value)
        return value

    def remember(self, *values: str) -> None:
        """Mask values from now on; of very many, those that were used last."""
        for value in values:
            if value in self._recent:
                self._recent.move_to_end(value)
            elif len(value) >= MIN_REDACTED_CHARS:
                self._add(value)
            elif not self._has_warned:
                self._has_warned = True
                log.warning(
                    "A secret or environment variable of a request has fewer than %d characters: it is sent, "
                    "but it cannot be masked in responses.",
                    MIN_REDACTED_CHARS,
                )

    def _add(self, value: str) -> None:
        self._recent[value] = None
        if len(self._recent) <= MAX_REMEMBERED_SECRETS:
            _mask_from_now_on(self.redactor, value)
            return
        # Access tokens come and go: without an end, each would make every response a little slower to read.
        for _ in range(MAX_REMEMBERED_SECRETS // 2):
            self._recent.popitem(last=False)
        self.redactor = Redactor()
        for each in self._recent:
            _mask_from_now_on(self.redactor, each)


def _mask_from_now_on(redactor: Redactor, value: str) -> None:
    if len(value) >= MIN_SECRET_CHARS:
        redactor.add([value])
    else:
        redactor.add_word(value)


class MaskedSecrets:
    """Stands in for secrets in a preview; a variable that is not set is an error here, too."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment

    def reveal(self, secret: Secret) -> str:
        """The mask."""
        for name in secret.variables:
            read_variable(name, self._environment)
        return REDACTION_MASK

    def read_name(self, name: Secret) -> str:
        """The mask."""
        return self.reveal(name)

    def basic_credentials(self, username: Secret, password: Secret) -> str:
        """The mask."""
        self.reveal(username)
        return self.reveal(password)

    def variable(self, name: str) -> str:
        """The mask."""
        read_variable(name, self._environment)
        return REDACTION_MASK


@dataclass(frozen=True, slots=True)
class _Variables:
    """The values of a template without arguments."""

    environment: Mapping[str, str] | None

    @property
    def arguments(self) -> Mapping[str, Any]:
        return {}

    def variable(self, name: str) -> str:
        return read_variable(name, self.environment)


def read_variable(name: str, environment: Mapping[str, str] | None = None) -> str:
    """The value of an environment variable, read now."""
    value = (os.environ if environment is None else environment).get(name)
    if not value:
        raise mark_unsent(ToolError(f"The environment variable {name} is not set. The developer of the tool sets it."))
    return value
