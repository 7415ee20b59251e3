"""WebSocket: a server that is spoken to over one connection in both directions.

The protocol's own documents do not know this way, and servers that have it agree on it: the subprotocol `mcp`, and
each message as one frame of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from surehand.core.durations import parse_duration, parse_size
from surehand.core.errors import DefinitionError
from surehand.http.settings import HttpSettings
from surehand.providers.mcp.addresses.address import (
    DEFAULT_MAX_FRAME_BYTES,
    ConnectionOwner,
    HeadersOrEnv,
    OnConnectionEnd,
    ServerAddress,
)
from surehand.providers.mcp.addresses.http import parse_server_url, query_digest, settings_for_target
from surehand.providers.mcp.addresses.labels import namespace_from_url, url_without_secrets

if TYPE_CHECKING:
    from surehand.providers.mcp.transports.transport import Transport


class WebSocketAddress(ServerAddress):
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
        headers: HeadersOrEnv = None,
        settings: HttpSettings | None = None,
        ping_interval: float | str = 20.0,
        max_frame: int | str = DEFAULT_MAX_FRAME_BYTES,
    ) -> None:
        if not str(url).lower().startswith(("ws://", "wss://")):
            raise DefinitionError(
                f"{url!r} is no address of a WebSocket.", fix="give one that begins with ws:// or wss://."
            )
        self.target = parse_server_url(f"http{url[2:]}")
        self.url, self.headers = url, headers
        self.ping_interval, self.max_frame = parse_duration(ping_interval), int(parse_size(max_frame))
        self.settings = settings_for_target(settings, self.target, self.max_frame)
        self.label = url_without_secrets(url)
        self.identity = f"websocket:{self.label}{query_digest(url)}"
        self.namespace = namespace_from_url(url)

    def create_transports(self, owner: ConnectionOwner, on_end: OnConnectionEnd) -> Sequence[Transport]:
        """One: the WebSocket."""
        from surehand.providers.mcp.transports.websocket import WebSocketTransport  # loads the MCP SDK

        return [WebSocketTransport(self, owner, on_end)]
