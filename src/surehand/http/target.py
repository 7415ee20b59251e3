"""`HttpTarget` is a URL that was parsed once, strictly: the host that is checked is the host that is connected to."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address
from typing import Literal, TypeAlias
from urllib.parse import quote, urljoin

from surehand.core.errors import Denied, InvalidArguments
from surehand.core.extras import install_command
from surehand.http.errors import mark_unsent

Scheme: TypeAlias = Literal["http", "https"]
Origin: TypeAlias = tuple[str, str, int]

MAX_URL_LENGTH = 8192
_DEFAULT_PORTS: dict[str, int] = {"http": 80, "https": 443}
_URL_PATTERN = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*):(?://(?P<authority>[^/?#]*))?(?P<rest>[^#]*)", re.IGNORECASE | re.DOTALL
)
_AUTHORITY_PATTERN = re.compile(r"(?P<host>\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{0,5}))?")
_HOST_NAME_PATTERN = re.compile(
    r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*"
)
_IPV4_NUMBER_PATTERN = re.compile(r"[0-9]+|0x[0-9a-f]*")
_UNQUOTED_CHARACTERS = "%/:@!$&'()*+,;=~-._?[]|^`{}"


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """Where a request goes."""

    scheme: Scheme
    host: str
    """In lower case and ASCII, without a dot at its end; an IPv6 address without its brackets."""
    port: int
    path: str
    """Path and query, percent-encoded, as they stand in the request line."""

    @property
    def origin(self) -> Origin:
        """Scheme, host and port: credentials are sent to the same origin only."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole URL, normalised."""
        return f"{self.scheme}://{self.authority}{self.path}"

    def join(self, location: str) -> HttpTarget:
        """The target of a redirect from here."""
        try:
            return parse_target(urljoin(self.url, location))
        except ValueError:  # brackets without an address
            raise mark_unsent(InvalidArguments("The URL has no host that could be read.")) from None


def parse_target(url: str) -> HttpTarget:
    """Parse a URL; raises `InvalidArguments`, or `Denied` for a scheme other than http and https."""
    url = url.strip(" ")
    if len(url) > MAX_URL_LENGTH:
        raise mark_unsent(InvalidArguments(f"The URL has {len(url)} characters; at most {MAX_URL_LENGTH} are sent."))
    if any(char <= " " or char == "\x7f" for char in url):
        raise mark_unsent(InvalidArguments("The URL holds a space or a control character: percent-encode it."))
    match = _URL_PATTERN.fullmatch(url.partition("#")[0])
    if match is None:
        raise mark_unsent(InvalidArguments("The URL must begin with http:// or https://."))
    scheme = _validate_scheme(match["scheme"].lower())
    host, port = _parse_authority(match["authority"] or "")
    return HttpTarget(scheme, host, _DEFAULT_PORTS[scheme] if port is None else port, _encode_path(match["rest"]))


def _validate_scheme(scheme: str) -> Scheme:
    if scheme == "http":
        return "http"
    if scheme == "https":
        return "https"
    raise mark_unsent(Denied(f"Only http and https URLs are fetched, not {scheme[:20]}: ones."))


def _parse_authority(authority: str) -> tuple[str, int | None]:
    # Browsers read a backslash as a slash, other parsers as part of a user name: the host would be ambiguous.
    if "\\" in authority:
        raise mark_unsent(InvalidArguments("The host of the URL holds a backslash."))
    if "@" in authority:
        raise mark_unsent(
            InvalidArguments(
                "The URL holds a user name or password before its host: send credentials in a header instead."
            )
        )
    match = _AUTHORITY_PATTERN.fullmatch(authority)
    if match is None:
        raise mark_unsent(InvalidArguments("The URL has no host that could be read, or no port between 1 and 65535."))
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 0 < port < 65536:
        raise mark_unsent(InvalidArguments(f"{port} is no port: they go from 1 to 65535."))
    return normalize_host(match["host"]), port


def normalize_host(host: str) -> str:
    """Normalise a host name or address: this form is looked up, compared and sent."""
    if host.startswith("["):
        return _normalize_ipv6(host[1:-1])
    name = _encode_idna(host).lower().removesuffix(".")
    if _IPV4_NUMBER_PATTERN.fullmatch(name.rpartition(".")[2]):
        return _normalize_ipv4(name)
    if len(name) > 253 or not _HOST_NAME_PATTERN.fullmatch(name):
        raise mark_unsent(InvalidArguments(f"{host[:100]!r} is no host name."))
    return name


def _normalize_ipv6(text: str) -> str:
    try:
        if "%" in text:
            raise mark_unsent(
                InvalidArguments("An IPv6 address in a URL has no zone here: leave out what follows the percent sign.")
            )
        return IPv6Address(text).compressed
    except AddressValueError:
        raise mark_unsent(InvalidArguments(f"{text[:100]!r} is no IPv6 address.")) from None


def _normalize_ipv4(name: str) -> str:
    """Normalise an IPv4 address: the system accepts decimal, octal, hexadecimal and short forms as well."""
    try:
        return socket.inet_ntoa(socket.inet_aton(name))
    except OSError:
        raise mark_unsent(InvalidArguments(f"{name[:100]!r} is no IPv4 address.")) from None


def _encode_idna(host: str) -> str:
    """Encode a host name for DNS (IDNA); full-width digits and other dots become ASCII."""
    if host.isascii():
        return host
    try:
        from idna import IDNAError, encode
    except ImportError:
        raise mark_unsent(
            InvalidArguments(f"Write the host in ASCII; other scripts need: {install_command('http')}")
        ) from None
    try:
        return encode(host, uts46=True).decode("ascii")
    except (IDNAError, UnicodeError):
        raise mark_unsent(InvalidArguments(f"{host[:100]!r} is no host name.")) from None


def _encode_path(rest: str) -> str:
    try:
        path = quote(rest, safe=_UNQUOTED_CHARACTERS)
    except UnicodeEncodeError:
        raise mark_unsent(InvalidArguments("The URL holds a character that cannot be encoded.")) from None
    return path if path.startswith("/") else f"/{path}"
