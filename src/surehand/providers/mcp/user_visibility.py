"""Sharing: to whom it is shown what a server offers, where it does not tell everybody the same."""

from __future__ import annotations

from surehand.core.call import Principal
from surehand.core.sanitize import clean_line
from surehand.providers.mcp.addresses.address import ANONYMOUS, ConnectionOwner
from surehand.providers.mcp.connection.connection_pool import ConnectionPool
from surehand.providers.mcp.tools.server_tools import ServerTools

MAX_REASON_LENGTH = 500
"""Characters on why a server is down."""


class UserVisibility:
    """What one user was told is no other's to see, unless the server has told them the same."""

    def __init__(self, server_tools: ServerTools, connections: ConnectionPool) -> None:
        self._server_tools, self._connections = server_tools, connections

    def may_replace_tools(self, owner: ConnectionOwner) -> bool:
        """Whether what somebody is told is what there is: where nobody is, one user's tools are better than none."""
        nobody = self._connections.find(ANONYMOUS)
        known = self._server_tools.is_known or (nobody is not None and nobody.manifest is not None)
        return owner == ANONYMOUS or _is_same_user(owner, self._server_tools.listed_for) or not known

    def is_known_to(self, principal: Principal) -> bool:
        """Whether there is nothing to ask in somebody's name."""
        own = self._connections.find(self._connections.owner_of(principal))
        return (self._server_tools.is_known and self._is_listed_for(principal)) or (
            own is not None and own.manifest is not None
        )

    def may_see_instructions(self, principal: Principal) -> bool:
        """Whether the server's words are meant for somebody."""
        if self._is_listed_for(principal):
            return True
        own = self._connections.find(self._connections.owner_of(principal))
        return own is not None and own.manifest is not None and self._server_tools.has_same_prose(own.manifest)

    def may_see_tool(self, principal: Principal, tool: str) -> bool:
        """Whether a tool, by our name for it, is one that the server offers somebody in these words."""
        if self._server_tools.listed_for == ANONYMOUS or self._is_listed_for(principal):
            return True
        own, definition = (
            self._connections.find(self._connections.owner_of(principal)),
            self._server_tools.definitions.get(tool, {}),
        )
        return own is not None and own.tool_definitions.get(str(definition.get("name"))) == definition

    def unavailable_notice(self, principal: Principal) -> str:
        """Why calls would be in vain, where the last try to reach the server was; nothing, where none was made."""
        connection = self._connections.find(self._connections.owner_of(principal)) or self._connections.find(ANONYMOUS)
        if not self._server_tools.is_known or connection is None or connection.failure is None:
            return ""
        return f"Its tools are not available now: {clean_line(str(connection.unavailable_error()), MAX_REASON_LENGTH)}"

    def _is_listed_for(self, principal: Principal) -> bool:
        return self._server_tools.listed_for == ANONYMOUS or _is_same_user(
            self._connections.owner_of(principal), self._server_tools.listed_for
        )


def _is_same_user(one: ConnectionOwner, other: ConnectionOwner) -> bool:
    """Whether they are one user, though perhaps in two sessions."""
    return one == other or (one.user is not None and one.user == other.user)
