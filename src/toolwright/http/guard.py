"""Guard: which hosts, ports and addresses may be reached."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import ip_network
from typing import Any, Literal, TypeAlias

from toolwright.core.errors import DefinitionError, Denied
from toolwright.http.addresses import OWN, Address, Network, dialled, embedded, why_denied
from toolwright.http.failures import unsent

Ports: TypeAlias = Collection[int] | Literal["any"]
Private: TypeAlias = bool | Collection[str]
"""Whether private addresses may be reached: no, one's own kinds, or only these hosts and networks."""

PORTS: frozenset[int] = frozenset({80, 443, 8080, 8443})


@dataclass(frozen=True, slots=True)
class Guard:
    """What may be reached: the public internet on the web's ports, unless more or less is said."""

    own: bool = False
    private_hosts: tuple[str, ...] = ()
    private_networks: tuple[Network, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    deny_hosts: tuple[str, ...] = ()
    deny_networks: tuple[Network, ...] = ()
    ports: Ports | None = None
    """None: the web's ports on the public internet, and any port where a private address may be reached."""

    def check_host(self, host: str, port: int) -> None:
        """Refuse a host or a port by its name; raises `Denied`."""
        if _matches(host, self.deny_hosts) or (self.allow_hosts and not _matches(host, self.allow_hosts)):
            raise unsent(Denied(f"{host} is not among the hosts that may be reached. Use another source."))
        may_be_private = self.own or self.private_hosts or self.private_networks
        if not (self.ports is None and may_be_private):
            self._check_port(host, port)

    def _check_port(self, host: str, port: int) -> None:
        ports = PORTS if self.ports is None else self.ports
        if ports != "any" and port not in ports:
            known = ", ".join(map(str, sorted(ports)))
            raise unsent(Denied(f"Port {port} of {host} may not be reached, only: {known}."))

    def check_addresses(self, host: str, port: int, addresses: Iterable[Address]) -> list[Address]:
        """The addresses to dial; one that may not be reached refuses them all."""
        found = [dialled(address) for address in addresses]
        if not all(self._permits(host, address) for address in found):
            # Which address it is, and of which kind, would tell whoever asks how the network inside is laid out.
            raise unsent(
                Denied(f"{host} is not on the public internet, and private addresses may not be reached from here.")
            )
        if any(why_denied(address) is None for address in found):
            self._check_port(host, port)
        return found

    def _permits(self, host: str, address: Address) -> bool:
        meant = (address, *embedded(address))
        if any(_within(each, self.deny_networks) for each in meant):
            return False
        kind = why_denied(address)
        if kind is None or any(_within(each, self.private_networks) for each in meant):
            return True
        return kind in OWN and (self.own or _matches(host, self.private_hosts))


def guard_of(
    allow_private: Private = False,
    allow_hosts: Iterable[str] = (),
    deny_hosts: Iterable[str] = (),
    ports: Ports | None = None,
) -> Guard:
    """A guard from a developer's settings."""
    given = () if isinstance(allow_private, bool) else _words(allow_private, "allow_private")
    private_hosts, private_networks = _apart(given)
    denied_names, denied_networks = _apart(_words(deny_hosts, "deny_hosts"))
    return Guard(
        allow_private is True,
        private_hosts,
        private_networks,
        tuple(map(_plain, _words(allow_hosts, "allow_hosts"))),
        denied_names,
        denied_networks,
        _ports(ports),
    )


def _words(given: Any, name: str) -> tuple[str, ...]:
    fix = "give host names, as in '*.example.com', or networks."
    if not isinstance(given, Iterable):
        raise DefinitionError(f"{name}={given!r} cannot be used.", fix=fix)
    words = (given,) if isinstance(given, str) else tuple(given)
    for word in words:
        if not isinstance(word, str) or not word:
            raise DefinitionError(f"{name} holds {word!r}.", fix=fix)
    return words


def _apart(given: Iterable[str]) -> tuple[tuple[str, ...], tuple[Network, ...]]:
    """Names and networks; an address is a network of one."""
    names, networks = list[str](), list[Network]()
    for word in given:
        try:
            networks.append(ip_network(word.strip("[]"), strict=False))
        except ValueError:
            names.append(_plain(word))
    return tuple(names), tuple(networks)


def _plain(name: str) -> str:
    return name.lower().removesuffix(".").strip("[]")


def _ports(ports: Any) -> Ports | None:
    if ports is None or ports == "any":
        return ports  # type: ignore[no-any-return]  # one of the two
    if not isinstance(ports, Iterable):
        raise DefinitionError(f"ports={ports!r} cannot be used.", fix="give several, as in [80, 443], or 'any'.")
    found: frozenset[Any] = frozenset(ports)
    for port in found:
        if not isinstance(port, int) or not 0 < port < 65536:
            raise DefinitionError(f"{port!r} is no port.", fix="give numbers from 1 to 65535, or 'any'.")
    return found


def _matches(host: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(host, glob) for glob in globs)


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)
