"""Which IP addresses are not on the public internet; used by the guard.

`ipaddress.is_global` does not answer that: it is true for the NAT64 form of loopback, and for 6to4, site-local and
multicast addresses, and it does not know the addresses at which clouds hand out credentials.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

IpAddress: TypeAlias = IPv4Address | IPv6Address
IpNetwork: TypeAlias = IPv4Network | IPv6Network

PRIVATE_KINDS = frozenset({"loopback", "private", "shared", "unique local"})
"""Kinds that `allow_private=True` permits; the others are permitted only by naming their network."""

# The first row that matches gives the kind, so narrower networks come first.
_SPECIAL_NETWORKS_TABLE: tuple[tuple[str, str], ...] = (
    ("metadata", "169.254.169.254/32 169.254.170.2/32 169.254.170.23/32 100.100.100.200/32 192.0.0.192/32"),
    ("metadata", "168.63.129.16/32 fd00:ec2::/32 fd20:ce::254/128"),
    ("unspecified", "0.0.0.0/8 ::/128"),
    ("loopback", "127.0.0.0/8 ::1/128"),
    ("private", "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16"),
    ("shared", "100.64.0.0/10"),
    ("link-local", "169.254.0.0/16 fe80::/10"),
    ("protocol assignments", "192.0.0.0/24 2001::/23"),
    ("documentation", "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20"),
    ("benchmarking", "198.18.0.0/15"),
    ("6to4", "192.88.99.0/24 2002::/16"),
    ("multicast", "224.0.0.0/4 ff00::/8"),
    ("reserved", "240.0.0.0/4"),
    ("v4-compatible", "::/96"),
    ("v4-translated", "::ffff:0:0:0/96"),
    ("local NAT64", "64:ff9b:1::/48"),
    ("discard", "100::/64 100:0:0:1::/64"),
    ("segment routing", "5f00::/16"),
    ("unique local", "fc00::/7"),
    ("site-local", "fec0::/10"),
)
_SPECIAL_NETWORKS: tuple[tuple[IpNetwork, str], ...] = tuple(
    (ip_network(network), kind) for kind, networks in _SPECIAL_NETWORKS_TABLE for network in networks.split()
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_V4_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")


def parse_address(text: str) -> IpAddress:
    """Parse an address from a resolver; its zone (`fe80::1%eth0`) does not matter here. Raises `ValueError`."""
    return ip_address(text.partition("%")[0])


def special_address_kind(address: IpAddress) -> str | None:
    """The kind of a special address, also of one embedded in it; None for an address on the public internet."""
    for candidate in (address, *embedded_addresses(address)):
        if (kind := _own_special_kind(candidate)) is not None:
            return kind
    return None


def embedded_addresses(address: IpAddress) -> Iterator[IPv4Address]:
    """The IPv4 addresses inside an IPv6 address, which a gateway on the way would send the packets to."""
    if isinstance(address, IPv4Address):
        return
    number = int(address)
    last = IPv4Address(number & 0xFFFFFFFF)
    isatap = (number >> 32) & 0xFDFFFFFF == 0x00005EFE
    if address in _V4_MAPPED or address in _NAT64 or number >> 32 == 0 or isatap:
        yield last
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo


def _own_special_kind(address: IpAddress) -> str | None:
    for network, kind in _SPECIAL_NETWORKS:
        if address.version == network.version and address in network:
            return kind
    if isinstance(address, IPv4Address) or address in _GLOBAL_UNICAST or address in _V4_MAPPED or address in _NAT64:
        return None
    return "reserved"  # not assigned yet


def unmapped_address(address: IpAddress) -> IpAddress:
    """The address to connect to: plain IPv4 for an IPv4-mapped IPv6 address."""
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
