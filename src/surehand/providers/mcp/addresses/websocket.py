"""WebSocket: a server that is spoken to over one connection in both directions.

The protocol's own documents do not know this way, and servers that have it agree on it: the subprotocol `mcp`, and
each message as one frame of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from surehand.core.durations import seconds, size
from surehand.core.errors import DefinitionError
from surehand.http.settings import Settings
from surehand.providers.mcp.addresses.address import MAX_FRAME, Ended, ServerAddress, Texts, Who
from surehand.providers.mcp.addresses.http import checked, query_mark, reaching
from surehand.providers.mcp.addresses.label import namespace_of_url, plain_url

if TYPE_CHECKING:
    from surehand.providers.mcp.transports.transport import Transport


class WebSocket(ServerAddress):
    """A server at a `ws://` or `wss://` URL. Its own host may be reached wherever it is, and nothing else is.

    Args:
        headers: sent when the connection is opened; or a function of `Who` that gives them.
        settings: within which limits, as for the outgoing client.
        ping: seconds between questions whether the other side is still there; the answer may take as long.
        max_frame: bytes that one message may have.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Texts = None,
        settings: Settings | None = None,
        ping: float | str = 20.0,
        max_frame: int | str = MAX_FRAME,
    ) -> None:
        if not str(url).lower().startswith(("ws://", "wss://")):
            raise DefinitionError(
                f"{url!r} is no address of a WebSocket.", fix="give one that begins with ws:// or wss://."
            )
        self.target = checked(f"http{url[2:]}")
        self.url, self.headers = url, headers
        self.ping, self.max_frame = seconds(ping), int(size(max_frame))
        self.settings = reaching(settings, self.target, self.max_frame)
        self.label = plain_url(url)
        self.identity = f"websocket:{self.label}{query_mark(url)}"
        self.namespace = namespace_of_url(url)

    def transports(self, who: Who, ended: Ended) -> Sequence[Transport]:
        """One: the WebSocket."""
        from surehand.providers.mcp.transports.websocket import WebSocketTransport  # loads the MCP SDK

        return [WebSocketTransport(self, who, ended)]
