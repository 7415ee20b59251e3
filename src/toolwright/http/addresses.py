"""Addresses: which of them are not the public internet's, judged by a table of our own.

`ipaddress.is_global` is no such table: it calls the NAT64 form of loopback, 6to4, site-local and multicast addresses
global, and knows nothing of the addresses where clouds hand out credentials.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

OWN = frozenset({"loopback", "private", "shared", "unique local"})
"""What somebody runs himself, and `allow_private=True` opens; the rest is opened by naming its network."""

# The first row that fits gives the name, so what is narrower comes first.
_TABLE: tuple[tuple[str, str], ...] = (
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
_DENIED: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), kind) for kind, networks in _TABLE for network in networks.split()
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_V4_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")


def parsed(text: str) -> Address:
    """An address as a resolver gives it; a zone (`fe80::1%eth0`) says where to look and changes nothing here."""
    return ip_address(text.partition("%")[0])


def why_denied(address: Address) -> str | None:
    """The kind of a special address, or None for one of the public internet; one inside another is judged too."""
    for judged in (address, *embedded(address)):
        if (kind := _kind(judged)) is not None:
            return kind
    return None


def embedded(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that an IPv6 address stands for: what a gateway on the way would make of it."""
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


def _kind(address: Address) -> str | None:
    for network, kind in _DENIED:
        if address.version == network.version and address in network:
            return kind
    if isinstance(address, IPv4Address) or address in _GLOBAL_UNICAST or address in _V4_MAPPED or address in _NAT64:
        return None
    return "reserved"  # nothing else has been given out yet


def dialled(address: Address) -> Address:
    """The address that the system would reach in the end: a mapped one is plain IPv4."""
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
