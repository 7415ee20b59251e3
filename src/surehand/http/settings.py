"""`Settings` of a client: what it may reach, and its limits."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypedDict

from surehand.core.durations import parse_duration, parse_size
from surehand.core.errors import DefinitionError
from surehand.http.connector import Dialer, Resolver
from surehand.http.guard import AddressGuard, AllowedPorts, PrivateAccess, build_guard

USER_AGENT = "surehand (+https://pypi.org/project/surehand)"


_DURATION_FIELDS = ("timeout", "connect_timeout", "read_timeout")


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """What a client may reach, and its limits; times are in seconds."""

    allow_private: PrivateAccess = False
    """False, True for loopback and private networks, or the hosts and networks that are permitted."""
    allow_hosts: Iterable[str] = ()
    """Patterns such as `*.example.com`; if there are any, only these hosts are reached."""
    deny_hosts: Iterable[str] = ()
    """Patterns, or networks, that are never reached."""
    ports: AllowedPorts | None = None
    """Ports that may be reached, or `any`. None: 80, 443, 8080, 8443, and any port of a permitted private address."""
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
                raise DefinitionError(f"{name}={getattr(self, name)!r} is no limit.", fix="give a number above zero.")
        if any(limit is not None and not limit > 0 for limit in (self.timeout, self.max_bytes)):
            raise DefinitionError("timeout and max_bytes are above zero.", fix="give a number, or None for no limit.")
        if self.max_redirects < 0:
            raise DefinitionError(f"max_redirects={self.max_redirects} is no number.", fix="give zero or more.")
        # An iterator would be empty, and so permit everything, when it is read a second time.
        for name in ("allow_private", "allow_hosts", "deny_hosts", "ports"):
            if isinstance(given := getattr(self, name), Iterator):
                object.__setattr__(self, name, tuple(given))
        self.build_guard()

    def _parse_units(self) -> None:
        """Turn `5s` and `1MB` into numbers."""
        for name, read in (
            *((name, parse_duration) for name in _DURATION_FIELDS),
            ("max_bytes", parse_size),
            ("max_header_bytes", parse_size),
        ):
            if isinstance(given := getattr(self, name), str):
                try:
                    object.__setattr__(self, name, read(given))
                except ValueError as error:
                    raise DefinitionError(str(error), fix="write 5, '5s' or '1MB'.") from None

    def build_guard(self) -> AddressGuard:
        """The guard for these settings."""
        return build_guard(self.allow_private, self.allow_hosts, self.deny_hosts, self.ports)


class HttpOptions(TypedDict, total=False):
    """The fields of `Settings` as keyword arguments."""

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
