"""Which users see a server's tools, where the server does not list the same tools for everybody.

The provider asks this before it shows tools and instructions to a user's model. It only reads: the tools that are
offered now, and the manifests that the users' own connections have received.
"""

from __future__ import annotations

from surehand.core.call import Principal
from surehand.core.sanitize import clean_line
from surehand.providers.mcp.connection.connection_pool import ConnectionPool
from surehand.providers.mcp.connection_owner import ANONYMOUS, ConnectionOwner
from surehand.providers.mcp.tools.server_tools import ServerTools

MAX_REASON_LENGTH = 500
"""Characters of the reason why a server is down."""


class UserVisibility:
    """Tools that were listed for one user are hidden from other users, unless the server lists the same for them."""

    def __init__(self, server_tools: ServerTools, connections: ConnectionPool) -> None:
        self._server_tools = server_tools
        self._connections = connections

    def may_replace_tools(self, owner: ConnectionOwner) -> bool:
        """Whether a manifest received by this owner becomes the provider's tools.

        The anonymous list has priority. While no anonymous list exists, the list of one user is used.
        """
        anonymous = self._connections.find(ANONYMOUS)
        has_anonymous_list = anonymous is not None and anonymous.manifest is not None
        if owner == ANONYMOUS or _is_same_user(owner, self._server_tools.listed_for):
            return True
        return not (self._server_tools.is_known or has_anonymous_list)

    def is_known_to(self, principal: Principal) -> bool:
        """Whether the tools for this user are known, so that the server need not be asked."""
        if self._server_tools.is_known and self._is_listed_for(principal):
            return True
        own = self._connections.find(self._connections.owner_of(principal))
        return own is not None and own.manifest is not None

    def may_see_instructions(self, principal: Principal) -> bool:
        """Whether the server's instructions and prompts were sent for this user, or were sent to it as well."""
        if self._is_listed_for(principal):
            return True
        own = self._connections.find(self._connections.owner_of(principal))
        return own is not None and own.manifest is not None and self._server_tools.has_same_prose(own.manifest)

    def may_see_tool(self, principal: Principal, tool: str) -> bool:
        """Whether the server lists a tool, given by its local name, for this user with the same definition."""
        if self._is_listed_for(principal):
            return True
        own = self._connections.find(self._connections.owner_of(principal))
        definition = self._server_tools.definitions.get(tool, {})
        return own is not None and own.tool_definitions.get(str(definition.get("name"))) == definition

    def unavailable_notice(self, principal: Principal) -> str:
        """Why calls would fail now; empty if the last connection attempt succeeded, or if there was none."""
        connection = self._connections.find(self._connections.owner_of(principal)) or self._connections.find(ANONYMOUS)
        if not self._server_tools.is_known or connection is None or connection.failure is None:
            return ""
        return f"Its tools are not available now: {clean_line(str(connection.unavailable_error()), MAX_REASON_LENGTH)}"

    def _is_listed_for(self, principal: Principal) -> bool:
        listed_for = self._server_tools.listed_for
        return listed_for == ANONYMOUS or _is_same_user(self._connections.owner_of(principal), listed_for)


def _is_same_user(one: ConnectionOwner, other: ConnectionOwner) -> bool:
    """Whether two owners are one user, possibly in two sessions."""
    return one == other or (one.user is not None and one.user == other.user)
