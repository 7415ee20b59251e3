"""Which hosts a developer has named: only these get secrets, and only these may be on private addresses.

A document of the developer's own may lead anywhere. One that is fetched is written by whoever can change it: of its
servers and token endpoints only those count that are at the host of its URL, or that an option names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from surehand.core.errors import DefinitionError, ToolError
from surehand.http.target import HttpTarget, normalize_host, parse_target
from surehand.providers.openapi.document import Document


@dataclass(frozen=True, slots=True)
class TrustedHosts:
    """The hosts that a developer has named for one document."""

    is_own_document: bool
    """Whether the document itself is the developer's, and not fetched."""
    addresses: tuple[HttpTarget, ...] = ()
    """The URL of the document, and the addresses in the options."""
    hosts: frozenset[str] = frozenset()
    """The names in the option `trusted_hosts`."""

    def may_receive_secrets(self, target: HttpTarget) -> bool:
        """Whether secrets may be sent to a target: at a named host, and not without TLS if it was named with TLS."""
        if self.is_own_document or target.host in self.hosts:
            return True
        return any(
            target.host == address.host and (target.scheme == "https" or address.scheme == "http")
            for address in self.addresses
        )

    def may_be_private(self, target: HttpTarget) -> bool:
        """Whether a target may be on a private address: at a named host and port."""
        if self.is_own_document or target.host in self.hosts:
            return True
        return any((target.host, target.port) == (address.host, address.port) for address in self.addresses)


def find_trusted_hosts(document: Document, addresses: Iterable[str], hosts: frozenset[str]) -> TrustedHosts:
    """The hosts that a developer has named for a document.

    Args:
        addresses: the URLs in the options; they may be relative to that of the document, or empty.
        hosts: the names in the option `trusted_hosts`.
    """
    if not document.url:
        return TrustedHosts(is_own_document=True)
    # Not the URL that the document was redirected to: that one is the choice of the host, and not of the developer.
    urls = [document.requested_url, *(urljoin(document.url, each) for each in addresses if each)]
    return TrustedHosts(False, tuple(map(parse_target, urls)), hosts)


def parse_host_names(value: Any) -> frozenset[str]:
    """Parse the option `trusted_hosts`: host names, without scheme and port. Raises `DefinitionError`."""
    names = (value,) if isinstance(value, str) else tuple(value or ())
    return frozenset(map(_parse_host_name, names))


def _parse_host_name(name: Any) -> str:
    try:
        return normalize_host(str(name))
    except ToolError as error:
        fix = 'write names such as "api.example.com", without scheme and port.'
        raise DefinitionError(f"trusted_hosts has an entry that is not a host: {error}", fix=fix) from None
