"""The secrets that one connection uses, and their redaction in everything that its server says.

Addresses and transports add environment variables, headers, tokens and credentials the moment they are resolved; what
is sent to a server may come back from it in results, errors, log messages and stderr.
"""

from __future__ import annotations

import binascii
import logging
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from surehand.core.redaction import LineRedactor, Redactor
from surehand.providers.mcp.labels import SECRET_NAME, TOKEN_VALUE, mask_secrets

MIN_SECRET_LENGTH = 6
"""Characters from which on a value with the name of a secret is masked: a shorter one may stand in any text."""
MIN_VALUE_LENGTH = 8
"""Characters from which on any other value may be masked."""
_AUTH_SCHEMES = ("basic", "bearer", "token", "apikey")
_SECRET_WORD = re.compile(
    r"(?:^|[_.-])(?:key|keys|auth|pat|pwd|pass|cookie|dsn|pin|otp|jwt|sig|signature|salt|webhook)(?:$|[_.-])",
    re.IGNORECASE,
)
_FILE_NAME = re.compile(r"(?:^|[_.-])(?:file|path|dir|folder|home|root)$", re.IGNORECASE)
"""Names of variables that hold a path, for example to a key."""
_PLAIN_NAME = re.compile(
    r"(?:^|[_.-])(?:id|uuid|region|zone|host|hostname|port|url|uri|endpoint|model|version|level|mode|env|environment|project"
    r"|org|organization|workspace|user|username|email|account|locale|lang|timezone|tz|format|type|agent|accept|encoding|name)$",
    re.IGNORECASE,
)
"""Names of variables and headers whose values are no secrets."""
_PLAIN_VALUE = re.compile(r"[A-Za-z]+|[\d.,:+-]+|(?:~|\.{1,2})?/.*|[a-z][a-z0-9+.-]*://[^@?#]*", re.DOTALL)
"""One word, a number, a path, or a URL without credentials and query."""

ServerLog: TypeAlias = "logging.Logger | RedactingLog"


class ConnectionSecrets:
    """What must not be shown of the configuration of one server and one owner.

    Values that are secret by their name or form are masked in all that the server says. Other values that may be secret
    are masked in stderr, errors and logs, but not in results and definitions, where the value of a variable such as a
    project's name is often what the caller wants to know.
    """

    def __init__(self) -> None:
        self._in_messages = Redactor()
        self._in_reports = Redactor()

    def add(self, named_values: Mapping[str, str]) -> None:
        """Add environment variables or headers."""
        for name, value in named_values.items():
            if value:
                self._add_value(name, value)

    def _add_value(self, name: str, value: str) -> None:
        if is_secret(name, value):
            self.add_secrets([value, *_parts_of_header(value)])
        elif len(value) >= MIN_VALUE_LENGTH and not (_is_plain_name(name) or _PLAIN_VALUE.fullmatch(value)):
            self._in_reports.add([value])
        self.add_secrets(_secrets_in_url(value))

    def add_secrets(self, values: Iterable[str | None]) -> None:
        """Add tokens, passwords and keys."""
        secrets = [value for value in values if value is not None and len(value) >= MIN_SECRET_LENGTH]
        self._in_messages.add(secrets)
        self._in_reports.add(secrets)

    def add_url(self, url: str) -> None:
        """Add the credentials and the secret parameters of a URL."""
        self.add_secrets(_secrets_in_url(url))

    def add_command(self, words: list[str]) -> None:
        """Add the secrets among the words of a command, such as the value of `--token`."""
        for word, masked in zip(words, mask_secrets(words), strict=True):
            if word != masked:
                self.add_secrets([word.partition("=")[2] or word])

    def redact(self, text: str) -> str:
        """A text about the server, such as an error or a line of the log, without secrets."""
        return self._in_reports(text)

    def redact_message(self, value: Any) -> Any:
        """A value of a message of the server without secrets; the same object if it has none."""
        return self._in_messages.redact_json(value) if self._in_messages else value

    def redact_traced(self, value: Any) -> Any:
        """A value of a message that is logged."""
        return self._in_reports.redact_json(value)

    def line_redactor(self) -> LineRedactor:
        """Redacts the lines of stderr, one after the other."""
        return LineRedactor(self._in_reports)

    @property
    def max_form_chars(self) -> int:
        """Characters of the longest form in which a secret is found."""
        return self._in_reports.max_form_chars


class RedactingLog(logging.LoggerAdapter[logging.Logger]):
    """The logger of a server. Secrets of the connection are masked in every message."""

    def __init__(self, log: logging.Logger, secrets: ConnectionSecrets) -> None:
        super().__init__(log, {})
        self._secrets = secrets

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a message. It is put together here, because the logger would do so after it was masked."""
        if self.isEnabledFor(level):
            text = str(msg) % args if args else str(msg)
            self.logger.log(level, "%s", self._secrets.redact(text), **kwargs)


def is_secret(name: str, value: str) -> bool:
    """Whether a variable or header holds a secret, by its name or by the form of its value."""
    if TOKEN_VALUE.search(value):
        return len(value) >= MIN_SECRET_LENGTH
    has_secret_name = SECRET_NAME.fullmatch(name) is not None or _SECRET_WORD.search(name) is not None
    if has_secret_name and not _FILE_NAME.search(name):
        return len(value) >= MIN_SECRET_LENGTH
    return False


def _is_plain_name(name: str) -> bool:
    return _PLAIN_NAME.search(name) is not None or _FILE_NAME.search(name) is not None


def _parts_of_header(value: str) -> list[str]:
    """The token of `Bearer TOKEN`, and the password of `Basic BASE64`."""
    scheme, _, token = value.strip().partition(" ")
    if scheme.lower() not in _AUTH_SCHEMES or not token:
        return []
    token = token.strip()
    if scheme.lower() != "basic":
        return [token]
    try:
        return [token, b64decode(token).decode().partition(":")[2]]
    except (binascii.Error, UnicodeDecodeError):
        return [token]


def _secrets_in_url(url: str) -> list[str]:
    """The password of a URL, or its user if there is none, and the query parameters that have the name of a secret."""
    if "://" not in url:
        return []
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    credentials = parts.password or parts.username or ""
    query = [value for name, value in parse_qsl(parts.query) if is_secret(name, value)]
    return [secret for raw in (credentials, *query) for secret in {raw, unquote(raw)} if secret]
