"""Sharing: to whom it is shown what a server offers, where it does not tell everybody the same."""

from __future__ import annotations

from surehand.core.call import Principal
from surehand.core.sanitize import clean_line
from surehand.providers.mcp.addresses.address import EVERYONE, Who
from surehand.providers.mcp.offer import Offer
from surehand.providers.mcp.sessions import Sessions

MOST_REASON = 500
"""Characters on why a server is down."""


class Sharing:
    """What one user was told is no other's to see, unless the server has told them the same."""

    def __init__(self, offer: Offer, sessions: Sessions) -> None:
        self._offer, self._sessions = offer, sessions

    def may_set(self, who: Who) -> bool:
        """Whether what somebody is told is what there is: where nobody is, one user's tools are better than none."""
        nobody = self._sessions.found(EVERYONE)
        known = self._offer.known or (nobody is not None and nobody.manifest is not None)
        return who == EVERYONE or _is_same(who, self._offer.source) or not known

    def is_known_to(self, who: Principal) -> bool:
        """Whether there is nothing to ask in somebody's name."""
        own = self._sessions.found(self._sessions.who(who))
        return (self._offer.known and self._is_source(who)) or (own is not None and own.manifest is not None)

    def may_hear(self, who: Principal) -> bool:
        """Whether the server's words are meant for somebody."""
        if self._is_source(who):
            return True
        own = self._sessions.found(self._sessions.who(who))
        return own is not None and own.manifest is not None and self._offer.words_are(own.manifest)

    def may_see(self, who: Principal, tool: str) -> bool:
        """Whether a tool, by our name for it, is one that the server offers somebody in these words."""
        if self._offer.source == EVERYONE or self._is_source(who):
            return True
        own, definition = self._sessions.found(self._sessions.who(who)), self._offer.definitions.get(tool, {})
        return own is not None and own.definitions.get(str(definition.get("name"))) == definition

    def trouble(self, who: Principal) -> str:
        """Why calls would be in vain, where the last try to reach the server was; nothing, where none was made."""
        connection = self._sessions.found(self._sessions.who(who)) or self._sessions.found(EVERYONE)
        if not self._offer.known or connection is None or connection.trouble is None:
            return ""
        return f"Its tools are not available now: {clean_line(str(connection.unavailable()), MOST_REASON)}"

    def _is_source(self, who: Principal) -> bool:
        return self._offer.source == EVERYONE or _is_same(self._sessions.who(who), self._offer.source)


def _is_same(one: Who, other: Who) -> bool:
    """Whether they are one user, though perhaps in two sessions."""
    return one == other or (one.user is not None and one.user == other.user)
