"""`HttpSettings`: which hosts an HTTP client may reach, and its timeouts and size limits."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypedDict

from surehand.core.durations import parse_duration, parse_size
from surehand.core.errors import DefinitionError
from surehand.http.connector import Dialer, Resolver
from surehand.http.guard import AddressGuard, AllowedPorts, Endpoint, PrivateAccess, build_guard
from surehand.version import __version__

USER_AGENT = f"surehand/{__version__}"
MAX_AUTH_STEPS = 20
"""`max_redirects` for a client whose auth sends requests of its own: `httpx2` counts each of them as a redirect."""
_DURATION_FIELDS = ("timeout", "connect_timeout", "read_timeout")


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """What a client may reach, and its limits; times are in seconds. Times and sizes may be given as `5s` and `1MB`."""

    allow_private: PrivateAccess = False
    """False, True for loopback and private networks, or the hosts and networks that are permitted."""
    allow_hosts: Iterable[str] = ()
    """Patterns such as `*.example.com`; if there are any, only these hosts are reached."""
    deny_hosts: Iterable[str] = ()
    """Patterns, or networks, that are never reached."""
    ports: AllowedPorts | None = None
    """Ports that may be reached, or `any`. None: 80, 443, 8080, 8443, and any port of a permitted private address."""
    endpoints: Iterable[Endpoint] = ()
    """Hosts with ports that a developer wrote down: reached beside all others, also on private addresses."""
    allow_downgrade: bool = False
    """Whether a redirect may lead from https to http."""
    timeout: float | None = 30.0
    """For a whole request, with redirects and to the last byte of the response."""
    connect_timeout: float = 10.0
    read_timeout: float = 30.0
    """Between two pieces of a response."""
    max_bytes: int | None = 5 * 1024 * 1024
    max_ratio: float = 200.0
    """How many times its size a compressed response may unpack to, if that is more than 1 MiB."""
    max_header_bytes: int = 65_536
    max_redirects: int = 5
    max_connections: int = 64
    user_agent: str = USER_AGENT
    verify: ssl.SSLContext | None = field(default=None, repr=False)
    resolver: Resolver | None = None
    dialer: Dialer | None = None

    def __post_init__(self) -> None:
        self._parse_units()
        for name in ("connect_timeout", "read_timeout", "max_ratio", "max_header_bytes", "max_connections"):
            if not getattr(self, name) > 0:
                problem = f"{name} must be positive, got {getattr(self, name)!r}."
                raise DefinitionError(problem, fix="give a number above zero.")
        for name in ("timeout", "max_bytes"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                problem = f"{name} must be positive, got {limit!r}."
                raise DefinitionError(problem, fix="give a number above zero, or None for no limit.")
        if self.max_redirects < 0:
            problem = f"max_redirects must not be negative, got {self.max_redirects}."
            raise DefinitionError(problem, fix="give zero or more.")
        # An iterator would be empty, and so permit everything, when it is read a second time.
        for name in ("allow_private", "allow_hosts", "deny_hosts", "ports", "endpoints"):
            if isinstance(value := getattr(self, name), Iterator):
                object.__setattr__(self, name, tuple(value))
        self.build_guard()

    def _parse_units(self) -> None:
        """Turn `5s` and `1MB` into numbers."""
        parsers: dict[str, Callable[[str], float | None]] = dict.fromkeys(_DURATION_FIELDS, parse_duration)
        parsers |= {"max_bytes": parse_size, "max_header_bytes": parse_size}
        for name, parse in parsers.items():
            if isinstance(value := getattr(self, name), str):
                try:
                    object.__setattr__(self, name, parse(value))
                except ValueError as error:
                    raise DefinitionError(str(error), fix="write 5, '5s' or '1MB'.") from None

    def build_guard(self) -> AddressGuard:
        """The guard for these settings."""
        return build_guard(self.allow_private, self.allow_hosts, self.deny_hosts, self.ports, self.endpoints)


class HttpOptions(TypedDict, total=False):
    """The fields of `HttpSettings` as keyword arguments."""

    allow_private: PrivateAccess
    allow_hosts: Iterable[str]
    deny_hosts: Iterable[str]
    ports: AllowedPorts | None
    allow_downgrade: bool
    timeout: float | None
    connect_timeout: float
    read_timeout: float
    max_bytes: int | None
    max_ratio: float
    max_header_bytes: int
    max_redirects: int
    max_connections: int
    user_agent: str
    verify: ssl.SSLContext | None
    resolver: Resolver | None
    dialer: Dialer | None


class HttpLimits(TypedDict, total=False):
    """The settings that one request may change."""

    timeout: float | None
    read_timeout: float
    max_bytes: int | None
    max_redirects: int
