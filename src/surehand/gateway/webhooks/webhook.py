"""`Webhook`: a program that waits are sent to, and that may answer them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, get_args

from surehand.core.errors import DefinitionError, Denied, InvalidArguments
from surehand.gateway.access.answers import WaitKind
from surehand.gateway.access.identity import DEFAULT_SCOPES, Identity, unknown_scope
from surehand.gateway.webhooks.signatures import parse_secret
from surehand.http.target import HttpTarget, parse_target

RETRY_DELAYS_SECONDS = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0, 7200.0, 14_400.0, 28_800.0, 43_200.0)
"""The pauses before further attempts, a day and a bit together; then a delivery is given up."""
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


@dataclass(frozen=True, slots=True)
class Webhook:
    """A program that waits are sent to as signed messages, and that may answer them as signed messages."""

    name: str
    """Names it in the path of its answers, `/api/webhooks/NAME/answers`, and in statistics."""
    secrets: tuple[str, ...] = field(repr=False)
    """Secrets as `new_webhook_secret` makes them. While one is replaced there are two: both sign and are accepted."""
    url: str | None = field(default=None, repr=False)
    """Where waits are sent, by POST; None for a program that only answers. Not shown: a URL may hold a secret."""
    tools: tuple[str, ...] = ("*",)
    """Globs of the tools whose waits are sent."""
    waiting_for: frozenset[str] = frozenset(get_args(WaitKind))
    people: tuple[str, ...] = ()
    """Globs of the users in whose name it may answer; without any it may not answer."""
    scopes: frozenset[str] = frozenset(DEFAULT_SCOPES)
    """The scopes of these people when they answer by this webhook, for answer rules that name a scope."""
    retry_delays: tuple[float, ...] = RETRY_DELAYS_SECONDS
    """Seconds before each further attempt."""

    def __post_init__(self) -> None:
        for name in ("secrets", "tools", "people", "retry_delays"):
            value: Any = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        for name in ("waiting_for", "scopes"):
            value = getattr(self, name)
            object.__setattr__(self, name, frozenset((value,) if isinstance(value, str) else value))
        if not self.name or len(self.name) > 64 or not _NAME_CHARACTERS.issuperset(self.name):
            raise DefinitionError(f"{self.name!r} cannot name a webhook.", fix="use letters, digits, '_' and '-'.")
        if not self.secrets:
            raise DefinitionError(f"Webhook {self.name} has no secret.", fix="give it secrets=[new_webhook_secret()].")
        for secret in self.secrets:
            parse_secret(secret)
        if unknown := self.waiting_for - set(get_args(WaitKind)):
            raise DefinitionError(f"waiting_for has {min(unknown)!r}.", fix="use approval, result or input.")
        if (scope := unknown_scope(self.scopes)) is not None:
            raise DefinitionError(f"{scope!r} is not a scope.", fix="use the scopes of tokens.")
        _ = self.target

    @property
    def target(self) -> HttpTarget | None:
        """Where waits are sent."""
        if self.url is None:
            return None
        try:
            return parse_target(self.url)
        except (InvalidArguments, Denied) as error:
            raise DefinitionError(
                f"The URL of webhook {self.name} is not valid: {error}", fix="write https://..."
            ) from None

    def wants(self, tool: str, waiting_for: str) -> bool:
        """Whether waits of a tool are sent."""
        return waiting_for in self.waiting_for and any(fnmatchcase(tool, glob) for glob in self.tools)

    def may_answer_for(self, user: str) -> bool:
        """Whether it may answer in the name of a user."""
        return any(fnmatchcase(user, glob) for glob in self.people)

    def identity_of(self, user: str) -> Identity:
        """The user, as far as this webhook vouches for them."""
        return Identity(user, self.scopes, token_name=f"webhook:{self.name}")

    def message_id(self, call_id: str, round: int) -> str:
        """The id of the message about a question, the same for every attempt in every process."""
        digest = sha256("\0".join((self.name, call_id, str(round))).encode()).hexdigest()
        return f"msg_{digest[:32]}"
