"""Authentication of requests: bearer, basic, API key, OAuth2 client credentials, and several of them together.

The values here are what a developer writes down. `apply_auth` adds them to a request when it is sent, or when it is
shown; tokens of OAuth2 come from `oauth2.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from surehand.core.errors import DefinitionError, ToolError
from surehand.core.redaction import REDACTION_MASK
from surehand.http.headers import HeaderPairs, validate_headers
from surehand.http.request import HttpRequest
from surehand.http.target import HttpTarget, parse_target
from surehand.providers.rest.secrets import Secret, SecretSource

ApiKeyPlace: TypeAlias = Literal["header", "query", "cookie"]
API_KEY_PLACES: tuple[ApiKeyPlace, ...] = ("header", "query", "cookie")


@dataclass(frozen=True, slots=True)
class BearerAuth:
    """`Authorization: Bearer <token>`."""

    token: Secret


@dataclass(frozen=True, slots=True)
class BasicAuth:
    """`Authorization: Basic <username:password in base64>`."""

    username: Secret
    password: Secret


@dataclass(frozen=True, slots=True)
class ApiKeyAuth:
    """A key in a header, in the query or in a cookie."""

    key: Secret
    name: str = "X-API-Key"
    place: ApiKeyPlace = "header"


@dataclass(frozen=True, slots=True)
class ClientCredentialsAuth:
    """OAuth2 client credentials: a token from the token endpoint, fetched again before it expires."""

    token_url: HttpTarget
    client_id: Secret
    client_secret: Secret
    scope: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    """Further parameters of the token request, such as `audience`."""
    client_auth: Literal["basic", "body"] = "basic"
    """Whether id and secret of the client are sent as basic authentication or in the body."""


@dataclass(frozen=True, slots=True)
class CombinedAuth:
    """Several kinds of authentication in one request."""

    parts: tuple[Auth, ...] = field(default=())


Auth: TypeAlias = BearerAuth | BasicAuth | ApiKeyAuth | ClientCredentialsAuth | CombinedAuth


def single_auths(auth: Auth | None) -> Iterator[BearerAuth | BasicAuth | ApiKeyAuth | ClientCredentialsAuth]:
    """The kinds of authentication that an `Auth` consists of."""
    if isinstance(auth, CombinedAuth):
        for part in auth.parts:
            yield from single_auths(part)
    elif auth is not None:
        yield auth


def auth_secrets(auth: Auth | None) -> Iterator[Secret]:
    """The secrets that a developer wrote down for an `Auth`."""
    for each in single_auths(auth):
        match each:
            case BearerAuth(secret) | ApiKeyAuth(secret):
                yield secret
            case BasicAuth(username, password):
                yield from (username, password)
            case ClientCredentialsAuth():
                yield from (each.client_id, each.client_secret)


def auth_variables(auth: Auth | None) -> frozenset[str]:
    """The environment variables that the secrets of an `Auth` refer to."""
    return frozenset(name for secret in auth_secrets(auth) for name in secret.variables)


def token_targets(auth: Auth | None) -> Iterator[HttpTarget]:
    """The token endpoints, which a client must be able to reach."""
    for each in single_auths(auth):
        if isinstance(each, ClientCredentialsAuth):
            yield each.token_url


def apply_auth(
    request: HttpRequest, auth: Auth | None, secrets: SecretSource, tokens: Mapping[ClientCredentialsAuth, str]
) -> HttpRequest:
    """The request with its authentication.

    Args:
        tokens: the access tokens of OAuth2; one that is missing is shown as a mask.
    """
    for each in single_auths(auth):
        match each:
            case BearerAuth(token):
                request = _with_header(request, "Authorization", f"Bearer {secrets.reveal(token)}")
            case ClientCredentialsAuth():
                request = _with_header(request, "Authorization", f"Bearer {tokens.get(each, REDACTION_MASK)}")
            case BasicAuth(username, password):
                credentials = secrets.basic_credentials(username, password)
                request = _with_header(request, "Authorization", f"Basic {credentials}")
            case ApiKeyAuth(key, name, place):
                request = _with_api_key(request, name, secrets.reveal(key), place)
    return request


def _with_api_key(request: HttpRequest, name: str, key: str, place: ApiKeyPlace) -> HttpRequest:
    if place == "header":
        return _with_header(request, name, key)
    if place == "query":
        path, _, query = request.target.path.partition("?")
        quoted_name = quote(name, safe="")
        # The link to a further page of a list often holds the key already.
        others = [pair for pair in query.split("&") if pair and pair.partition("=")[0] != quoted_name]
        pairs = "&".join([*others, f"{quoted_name}={quote(key, safe='')}"])
        return replace(request, target=replace(request.target, path=f"{path}?{pairs}"))
    return _with_header(request, "Cookie", f"{name}={quote(key, safe=_COOKIE_CHARACTERS)}")


_COOKIE_CHARACTERS = "!#$&'()*+-./:<=>?@[]^_`{|}~"
"""Characters that stay as they are in the value of a cookie (RFC 6265), except the percent sign."""


def _with_header(request: HttpRequest, name: str, value: str) -> HttpRequest:
    others = tuple(pair for pair in request.headers if pair[0].lower() != name.lower())
    if name.lower() == "cookie":
        own = [known for header, known in request.headers if header.lower() == "cookie"]
        value = "; ".join([*own, value])
    added: HeaderPairs = validate_headers({name: value})
    return replace(request, headers=(*others, *added))


def parse_auth(value: Any) -> Auth:
    """The `Auth` that a developer wrote: a bearer token, user and password, a mapping (see `_FORMS`), or a list."""
    if isinstance(value, (BearerAuth, BasicAuth, ApiKeyAuth, ClientCredentialsAuth, CombinedAuth)):
        return value
    if isinstance(value, str):
        return BearerAuth(Secret.parse(value, "auth"))
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, str) for part in value):
        return parse_auth({"username": value[0], "password": value[1]})
    if isinstance(value, (list, tuple)):
        return CombinedAuth(tuple(map(parse_auth, value)))
    if not isinstance(value, Mapping):
        raise _auth_error(f"auth cannot be a {type(value).__name__}.")
    keys = set(value)
    if keys == {"bearer"}:
        return BearerAuth(Secret.parse(value["bearer"], "auth.bearer"))
    if "basic" in keys and isinstance(value["basic"], Mapping) and len(keys) == 1:
        return parse_auth(value["basic"])
    if keys == {"username", "password"}:
        return BasicAuth(
            Secret.parse(value["username"], "auth.username"), Secret.parse(value["password"], "auth.password")
        )
    if "api_key" in keys:
        return _parse_api_key(value)
    if keys == {"oauth2"} and isinstance(value["oauth2"], Mapping):
        return _parse_client_credentials(value["oauth2"])
    raise _auth_error(f"auth has the keys {', '.join(sorted(map(str, keys))) or 'of nothing'}, which do not fit.")


_FORMS = (
    "write {bearer: ...}, {username: ..., password: ...}, {api_key: ..., header | query | cookie: NAME} or "
    "{oauth2: {token_url: ..., client_id: ..., client_secret: ..., scope: ...}}."
)


def _auth_error(problem: str) -> DefinitionError:
    return DefinitionError(problem, fix=_FORMS)


def _parse_api_key(value: Mapping[str, Any]) -> ApiKeyAuth:
    key = Secret.parse(value["api_key"], "auth.api_key")
    places = [place for place in API_KEY_PLACES if place in value]
    if len(places) > 1 or set(value) - {"api_key", *places}:
        raise _auth_error("auth with an api_key takes one of header, query and cookie, and nothing else.")
    if not places:
        return ApiKeyAuth(key)
    name = value[places[0]]
    if not isinstance(name, str) or not name:
        raise _auth_error(f"auth.{places[0]} must be the name of the {places[0]}.")
    if places[0] == "header":
        try:
            validate_headers({name: "x"})
        except ToolError as error:
            raise _auth_error(f"auth.header: {error}") from None
    if places[0] == "cookie" and not (
        name.isascii() and name.isprintable() and not set(name) & set(' ,;="()<>@\\/[]?{}')
    ):
        raise _auth_error(f"auth.cookie: {name!r} is no name of a cookie.")
    return ApiKeyAuth(key, name, places[0])


_CLIENT_KEYS = frozenset({"token_url", "client_id", "client_secret", "scope", "audience", "parameters", "client_auth"})


def _parse_client_credentials(value: Mapping[str, Any]) -> ClientCredentialsAuth:
    if unknown := set(value) - _CLIENT_KEYS:
        raise _auth_error(f"auth.oauth2 has no key {', '.join(sorted(map(str, unknown)))}.")
    if missing := {"token_url", "client_id", "client_secret"} - set(value):
        raise _auth_error(f"auth.oauth2 lacks {', '.join(sorted(missing))}.")
    try:
        token_url = parse_target(str(value["token_url"]))
    except ToolError as error:
        raise _auth_error(f"auth.oauth2.token_url: {error}") from None
    client_auth = value.get("client_auth", "basic")
    if client_auth not in ("basic", "body"):
        raise _auth_error(f"auth.oauth2.client_auth must be basic or body, got {client_auth!r}.")
    scope = value.get("scope", "")
    parameters = dict(value.get("parameters", {}))
    if "audience" in value:
        parameters["audience"] = value["audience"]
    return ClientCredentialsAuth(
        token_url,
        Secret.parse(value["client_id"], "auth.oauth2.client_id"),
        Secret.parse(value["client_secret"], "auth.oauth2.client_secret"),
        scope if isinstance(scope, str) else " ".join(map(str, scope)),
        tuple((str(name), str(each)) for name, each in parameters.items()),
        client_auth,
    )
