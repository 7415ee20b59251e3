"""Security schemes of a document, mapped to the secrets that a developer configured under their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import urljoin

from surehand.core.errors import DefinitionError, ToolError
from surehand.core.names import nearest_names
from surehand.http.headers import validate_headers
from surehand.http.target import parse_target
from surehand.providers.openapi.document import Document, UnusableOperation
from surehand.providers.openapi.document_limits import MAX_ALTERNATIVES
from surehand.providers.openapi.operations import Operation
from surehand.providers.rest.auth import (
    ApiKeyAuth,
    Auth,
    BasicAuth,
    BearerAuth,
    ClientCredentialsAuth,
    CombinedAuth,
    parse_auth,
)
from surehand.providers.rest.secrets import Secret
from surehand.providers.rest.template import TextTemplate


class SecuritySchemes:
    """Authentication by the name of a scheme, and which of them an operation needs."""

    def __init__(self, document: Document, configured: Mapping[str, Any]) -> None:
        self._document = document
        schemes = _read_schemes(document)
        unknown = [name for name in configured if name not in schemes]
        if unknown:
            near = nearest_names(unknown[0], schemes, 1)
            known = f"use one of {', '.join(map(str, schemes))}." if schemes else "remove it."
            raise DefinitionError(
                f"The document has no security scheme {unknown[0]!r}.",
                fix=f"did you mean {near[0]!r}?" if near else known,
            )
        self._auths = {name: _build_auth(name, schemes[name], value, document) for name, value in configured.items()}

    @property
    def auths(self) -> Iterator[Auth]:
        """The configured authentication."""
        return iter(self._auths.values())

    def auth_for(self, operation: Operation) -> Auth | None:
        """The first alternative whose schemes are all configured; None if none is, or if none is needed."""
        alternatives = operation.definition.get("security", self._document.root.get("security"))
        for alternative in islice(alternatives, MAX_ALTERNATIVES) if isinstance(alternatives, list) else ():
            if not isinstance(alternative, dict) or not alternative:
                continue
            if all(name in self._auths for name in alternative):
                parts = tuple(self._auths[name] for name in alternative)
                return parts[0] if len(parts) == 1 else CombinedAuth(parts)
        return None


def _read_schemes(document: Document) -> dict[str, Any]:
    root = document.root
    components = root.get("components")
    written = root.get("securityDefinitions") if document.is_swagger else None
    if not document.is_swagger and isinstance(components, dict):
        written = components.get("securitySchemes")
    found: dict[str, Any] = {}
    for name, each in written.items() if isinstance(written, dict) else ():
        try:
            found[name] = document.resolve(each, document.main).value
        except UnusableOperation:
            found[name] = None
    return found


def _build_auth(name: str, scheme: Any, value: Any, document: Document) -> Auth:
    """The authentication of one scheme with its configured secret."""
    if not isinstance(scheme, dict):
        raise DefinitionError(f"The security scheme {name!r} is not an object.", fix="correct the document.")
    kind = scheme.get("type")
    if kind == "apiKey":
        return _build_api_key(name, scheme, value)
    is_basic = kind == "basic" or (kind == "http" and str(scheme.get("scheme", "")).lower() == "basic")
    if is_basic:
        return _build_basic(name, value)
    if isinstance(value, Mapping) and {"client_id", "client_secret"} <= set(value):
        return _build_client_credentials(name, scheme, value, document)
    if isinstance(value, Mapping):
        return parse_auth(value)
    if kind == "mutualTLS":
        raise DefinitionError(f"The security scheme {name!r} is mutual TLS, which takes no secret.", fix="remove it.")
    written = str(scheme.get("scheme", "bearer"))
    if kind == "http" and written.lower() != "bearer":
        secret = Secret.parse(value, f"auth.{name}")
        return ApiKeyAuth(_prefixed(secret, written), "Authorization", "header")
    return BearerAuth(Secret.parse(value, f"auth.{name}"))


def _prefixed(secret: Secret, scheme: str) -> Secret:
    """A secret after the name of an HTTP scheme, as in `Authorization: Token abc`."""
    return Secret(TextTemplate((f"{scheme} ", *secret.template.parts)))


def _build_api_key(name: str, scheme: dict[str, Any], value: Any) -> ApiKeyAuth:
    key_name = scheme.get("name")
    place = scheme.get("in")
    if not isinstance(key_name, str) or place not in ("header", "query", "cookie"):
        raise DefinitionError(f"The security scheme {name!r} does not say where its key goes.", fix="correct it.")
    if place == "header":
        try:
            validate_headers({key_name: "x"})
        except ToolError as error:
            raise DefinitionError(f"The security scheme {name!r}: {error}", fix="correct the document.") from None
    return ApiKeyAuth(Secret.parse(value, f"auth.{name}"), key_name, place)


def _build_basic(name: str, value: Any) -> BasicAuth:
    if not isinstance(value, Mapping) or set(value) != {"username", "password"}:
        raise DefinitionError(
            f"auth.{name} is for basic authentication.", fix='give {"username": ..., "password": ...}.'
        )
    username = Secret.parse(value["username"], f"auth.{name}.username")
    return BasicAuth(username, Secret.parse(value["password"], f"auth.{name}.password"))


def _build_client_credentials(
    name: str, scheme: dict[str, Any], value: Mapping[str, Any], document: Document
) -> ClientCredentialsAuth:
    flows = scheme.get("flows")
    flow: Any = flows.get("clientCredentials") if isinstance(flows, dict) else scheme
    written = value.get("token_url") or (flow.get("tokenUrl") if isinstance(flow, dict) else None)
    if not isinstance(written, str) or not written:
        raise DefinitionError(f"The security scheme {name!r} has no token URL.", fix="give it as token_url.")
    try:
        token_url = parse_target(urljoin(document.url, written) if document.url else written)
    except ToolError as error:
        raise DefinitionError(f"The token URL of {name!r} cannot be used: {error}", fix="give token_url.") from None
    scope = value.get("scope", "")
    return ClientCredentialsAuth(
        token_url,
        Secret.parse(value["client_id"], f"auth.{name}.client_id"),
        Secret.parse(value["client_secret"], f"auth.{name}.client_secret"),
        scope if isinstance(scope, str) else " ".join(map(str, scope)),
    )
