"""The address of a server at a WebSocket URL.

WebSocket is not in the MCP specification. The servers that support it agree on the subprotocol `mcp`, and on one text
frame per message.
"""

from __future__ import annotations

from collections.abc import Sequence

from surehand.core.durations import parse_duration, parse_size
from surehand.core.errors import DefinitionError
from surehand.http.settings import HttpSettings
from surehand.providers.mcp.addresses.address import DEFAULT_MAX_FRAME_BYTES, ServerAddress
from surehand.providers.mcp.addresses.http import parse_server_url, query_digest, settings_for_target
from surehand.providers.mcp.connection_owner import ConnectionOwner, HeadersOrEnv
from surehand.providers.mcp.connection_secrets import ConnectionSecrets
from surehand.providers.mcp.labels import namespace_from_url, url_without_secrets
from surehand.providers.mcp.transports.transport import OnConnectionEnd, Transport


class WebSocketAddress(ServerAddress):
    """A server at a `ws://` or `wss://` URL. Only its own host is contacted, which may be on a private network.

    Args:
        headers: sent when the connection is opened; or a function of the owner that returns them.
        settings: limits, as for the HTTP client.
        ping_interval: time between two pings, and for the answer to each.
        max_frame: largest message in bytes.
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
                f"{url!r} is not a WebSocket URL.", fix="give a URL that begins with ws:// or wss://."
            )
        self.target = parse_server_url(f"http{url[2:]}")
        self.url = url
        self.headers = headers
        self.ping_interval = parse_duration(ping_interval)
        self.max_frame = int(parse_size(max_frame))
        self.settings = settings_for_target(settings, self.target, self.max_frame)
        self.label = url_without_secrets(url)
        self.identity = f"websocket:{self.label}{query_digest(url)}"
        self.namespace = namespace_from_url(url)

    def create_transports(
        self, owner: ConnectionOwner, on_end: OnConnectionEnd, secrets: ConnectionSecrets | None = None
    ) -> Sequence[Transport]:
        """Create the one transport."""
        from surehand.providers.mcp.transports.websocket import WebSocketTransport  # loads the MCP SDK

        return [WebSocketTransport(self, owner, on_end, secrets)]
