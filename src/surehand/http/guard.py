"""`AddressGuard` decides which hosts, ports and addresses may be reached; `build_guard` makes one from settings."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import ip_network
from typing import Any, Literal, TypeAlias

from surehand.core.errors import DefinitionError, Denied
from surehand.http.errors import mark_unsent
from surehand.http.ip_addresses import (
    PRIVATE_KINDS,
    IpAddress,
    IpNetwork,
    embedded_addresses,
    parse_address,
    special_address_kind,
    unmapped_address,
)

AllowedPorts: TypeAlias = Collection[int] | Literal["any"]
"""The ports that may be reached."""
Endpoint: TypeAlias = tuple[str, int]
"""A host, as `HttpTarget` has it, and a port."""
PrivateAccess: TypeAlias = bool | Collection[str]
"""Whether private addresses may be reached: no, yes, or only those of the named hosts and networks."""

DEFAULT_PORTS: frozenset[int] = frozenset({80, 443, 8080, 8443})
"""The ports that may be reached on the public internet by default."""


@dataclass(frozen=True, slots=True)
class AddressGuard:
    """What may be reached; by default the public internet on the ports of the web."""

    allow_private: bool = False
    private_hosts: tuple[str, ...] = ()
    private_networks: tuple[IpNetwork, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    deny_hosts: tuple[str, ...] = ()
    deny_networks: tuple[IpNetwork, ...] = ()
    ports: AllowedPorts | None = None
    """None: `DEFAULT_PORTS` on the public internet, and any port of a permitted private address."""
    endpoints: frozenset[Endpoint] = frozenset()
    """Hosts with their ports that may be reached beside all others, also on private addresses."""

    def check_host(self, host: str, port: int) -> None:
        """Raise `Denied` for a host name or port that may not be reached, before the host is resolved."""
        is_endpoint = (host, port) in self.endpoints
        is_allowed = is_endpoint or not self.allow_hosts or _matches_any(host, self.allow_hosts)
        if _matches_any(host, self.deny_hosts) or not is_allowed:
            raise mark_unsent(Denied(f"{host} is not among the hosts that may be reached. Use another source."))
        may_be_private = self.allow_private or self.private_hosts or self.private_networks
        if not is_endpoint and not (self.ports is None and may_be_private):
            self._check_port(host, port)

    def check_target(self, host: str, port: int) -> None:
        """Raise `Denied` for a target that may not be reached, as far as that is known without a look-up in DNS."""
        self.check_host(host, port)
        is_local_name = host == "localhost" or host.endswith(".localhost")  # RFC 6761: always the loopback address
        try:
            addresses = [parse_address("127.0.0.1" if is_local_name else host)]
        except ValueError:
            return
        self.check_addresses(host, port, addresses)

    def _check_port(self, host: str, port: int) -> None:
        ports = DEFAULT_PORTS if self.ports is None else self.ports
        if ports != "any" and port not in ports:
            known = ", ".join(map(str, sorted(ports)))
            raise mark_unsent(Denied(f"Port {port} of {host} may not be reached, only: {known}."))

    def check_addresses(self, host: str, port: int, addresses: Iterable[IpAddress]) -> list[IpAddress]:
        """The addresses to connect to; raises `Denied` if one of them may not be reached."""
        unmapped = [unmapped_address(address) for address in addresses]
        is_endpoint = (host, port) in self.endpoints
        if not all(self._permits(host, address, is_endpoint=is_endpoint) for address in unmapped):
            # The error names neither the address nor its kind: that would reveal the layout of the internal network.
            raise mark_unsent(
                Denied(f"{host} is not on the public internet, and private addresses may not be reached from here.")
            )
        if not is_endpoint and any(special_address_kind(address) is None for address in unmapped):
            self._check_port(host, port)
        return unmapped

    def _permits(self, host: str, address: IpAddress, *, is_endpoint: bool) -> bool:
        candidates = (address, *embedded_addresses(address))
        if any(_is_within_any(each, self.deny_networks) for each in candidates):
            return False
        kind = special_address_kind(address)
        if kind is None or any(_is_within_any(each, self.private_networks) for each in candidates):
            return True
        may_be_private = is_endpoint or self.allow_private or _matches_any(host, self.private_hosts)
        return kind in PRIVATE_KINDS and may_be_private


def build_guard(
    allow_private: PrivateAccess = False,
    allow_hosts: Iterable[str] = (),
    deny_hosts: Iterable[str] = (),
    ports: AllowedPorts | None = None,
    endpoints: Iterable[Endpoint] = (),
) -> AddressGuard:
    """Make a guard from a developer's settings; raises `DefinitionError`."""
    private_patterns = () if isinstance(allow_private, bool) else _validate_patterns(allow_private, "allow_private")
    private_hosts, private_networks = _split_hosts_and_networks(private_patterns)
    denied_hosts, denied_networks = _split_hosts_and_networks(_validate_patterns(deny_hosts, "deny_hosts"))
    return AddressGuard(
        allow_private is True,
        private_hosts,
        private_networks,
        tuple(map(_normalize_host_pattern, _validate_patterns(allow_hosts, "allow_hosts"))),
        denied_hosts,
        denied_networks,
        _validate_ports(ports),
        frozenset(endpoints),
    )


def _validate_patterns(value: Any, name: str) -> tuple[str, ...]:
    fix = "give host names, as in '*.example.com', or networks."
    if not isinstance(value, Iterable):
        raise DefinitionError(f"{name} must be a list of texts, got {value!r}.", fix=fix)
    patterns = (value,) if isinstance(value, str) else tuple(value)
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern:
            raise DefinitionError(f"{name} must hold texts that are not empty, got {pattern!r}.", fix=fix)
    return patterns


def _split_hosts_and_networks(patterns: Iterable[str]) -> tuple[tuple[str, ...], tuple[IpNetwork, ...]]:
    """Host names and networks apart; an address is a network of one."""
    hosts = list[str]()
    networks = list[IpNetwork]()
    for pattern in patterns:
        try:
            networks.append(ip_network(pattern.strip("[]"), strict=False))
        except ValueError:
            hosts.append(_normalize_host_pattern(pattern))
    return tuple(hosts), tuple(networks)


def _normalize_host_pattern(pattern: str) -> str:
    return pattern.lower().removesuffix(".").strip("[]")


def _validate_ports(ports: Any) -> AllowedPorts | None:
    if ports is None or ports == "any":
        return ports  # type: ignore[no-any-return]  # None or "any", which the checker does not narrow to
    if not isinstance(ports, Iterable):
        raise DefinitionError(f"ports must be a list of ports, got {ports!r}.", fix="write [80, 443], or 'any'.")
    numbers: frozenset[Any] = frozenset(ports)
    for port in numbers:
        if not isinstance(port, int) or not 0 < port < 65536:
            raise DefinitionError(f"A port must be between 1 and 65535, got {port!r}.", fix="correct it, or use 'any'.")
    return numbers


def _matches_any(host: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(host, glob) for glob in globs)


def _is_within_any(address: IpAddress, networks: Iterable[IpNetwork]) -> bool:
    return any(address.version == network.version and address in network for network in networks)
