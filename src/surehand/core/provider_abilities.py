"""The optional protocols that a provider supports, found once when it is added to a runtime.

The runtime keeps them beside the provider and the catalogue in each listing, so that no call looks for them again.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

from surehand.core.errors import DefinitionError
from surehand.core.protocols import (
    Authorizable,
    CallChecker,
    Cancellable,
    ConnectionBound,
    Inspectable,
    Instructive,
    PerUser,
    ProviderTraits,
    Refreshable,
    Resumable,
    Reviewable,
    Searchable,
    Selective,
    Startable,
    Stoppable,
    Traceable,
    Watchable,
)
from surehand.core.provider import Provider


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAbilities:
    """For each protocol the provider, if it supports it; and its traits."""

    startable: Startable | None = None
    stoppable: Stoppable | None = None
    traceable: Traceable | None = None
    watchable: Watchable | None = None
    refreshable: Refreshable | None = None
    per_user: PerUser | None = None
    selective: Selective | None = None
    searchable: Searchable | None = None
    instructive: Instructive | None = None
    call_checker: CallChecker | None = None
    cancellable: Cancellable | None = None
    resumable: Resumable | None = None
    connection_bound: ConnectionBound | None = None
    inspectable: Inspectable | None = None
    reviewable: Reviewable | None = None
    authorizable: Authorizable | None = None
    traits: ProviderTraits = field(default_factory=ProviderTraits)


NO_ABILITIES = ProviderAbilities()
"""Those of a tool without a provider."""


@runtime_checkable
class WrapsProvider(Protocol):
    """A provider that stands for another one, and supports what that one supports."""

    def abilities(self) -> ProviderAbilities:
        """What the inner provider supports, with the wrapper in place of the provider where it changes something."""


@dataclass(frozen=True, slots=True, eq=False)
class AddedProvider:
    """A provider of a runtime, with what it supports."""

    provider: Provider
    abilities: ProviderAbilities

    @classmethod
    def of(cls, provider: Provider) -> Self:
        """Look once for what a provider supports."""
        return cls(provider, find_abilities(provider))

    @property
    def namespace(self) -> str:
        """The namespace of the provider."""
        return self.provider.namespace


def find_abilities(provider: Provider) -> ProviderAbilities:
    """The protocols that a provider supports. Raises `DefinitionError` if it defines one of them only in part."""
    if isinstance(provider, WrapsProvider):
        return provider.abilities()
    supported: dict[str, Any] = {
        name: provider for name, protocol in _PROTOCOLS.items() if _supports(provider, protocol)
    }
    abilities = ProviderAbilities(**supported, traits=provider.traits)
    _require_refresh(provider, abilities)
    return abilities


_PROTOCOLS: dict[str, type] = {
    "startable": Startable,
    "stoppable": Stoppable,
    "traceable": Traceable,
    "watchable": Watchable,
    "refreshable": Refreshable,
    "per_user": PerUser,
    "selective": Selective,
    "searchable": Searchable,
    "instructive": Instructive,
    "call_checker": CallChecker,
    "cancellable": Cancellable,
    "resumable": Resumable,
    "connection_bound": ConnectionBound,
    "inspectable": Inspectable,
    "reviewable": Reviewable,
    "authorizable": Authorizable,
}
"""The protocols by the fields of `ProviderAbilities`."""


def _supports(provider: Provider, protocol: type) -> bool:
    """Whether a provider has the methods of a protocol; raises if it has only some, or with other parameters."""
    expected = {name: method for name, method in vars(protocol).items() if not name.startswith("_")}
    missing = [name for name in expected if getattr(provider, name, None) is None]
    if len(missing) == len(expected):
        return False
    if missing:
        defined = ", ".join(name for name in expected if name not in missing)
        problem = f"{type(provider).__name__} defines {defined}, but not {', '.join(missing)}."
        raise DefinitionError(problem, fix=f"define {', '.join(missing)} too.")
    for name, method in expected.items():
        _check_parameters(provider, name, method)
    return True


def _check_parameters(provider: Provider, name: str, expected: Any) -> None:
    parameters = [each for each in inspect.signature(expected).parameters if each != "self"]
    call = f"{name}({', '.join(parameters)})"
    method = getattr(provider, name)
    if not callable(method):
        raise DefinitionError(f"{type(provider).__name__}.{name} is not a method.", fix=f"define {call}.")
    signature = inspect.signature(method)
    try:
        signature.bind(*parameters)
    except TypeError:
        raise DefinitionError(
            f"{type(provider).__name__}.{name} takes {signature}, but is called as {call}.", fix=f"define it as {call}."
        ) from None


def _require_refresh(provider: Provider, abilities: ProviderAbilities) -> None:
    needs_refresh = abilities.per_user is not None or abilities.traits.may_gain_tools
    if needs_refresh and abilities.refreshable is None:
        reason = "may gain tools" if abilities.per_user is None else "has different tools for different users"
        raise DefinitionError(
            f"{type(provider).__name__} {reason}, but cannot ask its service for them.",
            fix="define refresh(principal).",
        )
