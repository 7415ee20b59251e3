"""ServeAddress: the address, token and allowed hosts of `surehand serve` and `surehand mcp --http`."""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass
from ipaddress import ip_address

from surehand.cli.exit_codes import EXIT_USAGE, CommandExit

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8765
DEFAULT_PATH = "/mcp"


@dataclass(frozen=True, slots=True)
class ServeAddress:
    """Where the server listens, and who may connect."""

    host: str
    port: int
    path: str
    token_env: str | None
    """The environment variable with the bearer token that clients must send."""
    host_names: tuple[str, ...] = ()
    """Further host names in requests, for example that of a proxy in front of the server."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may send requests."""
    has_other_tokens: bool = False
    """Whether clients can show other tokens, which the configuration lists."""

    @property
    def token(self) -> str | None:
        """The bearer token; required unless the server listens on this machine only."""
        if self.token_env is None:
            self.require_token("Name the variable that holds it with --token-env NAME.")
            return None
        token = os.environ.get(self.token_env)
        if not token:
            raise CommandExit(EXIT_USAGE, f"The variable {self.token_env} that holds the token is not set, or empty.")
        return token

    def require_token(self, fix: str) -> None:
        """End the command if other machines can connect without any token."""
        if self.token_env is None and not self.has_other_tokens and not self.is_loopback:
            problem = f"{self.host} can be reached from other machines, so clients have to show a token."
            raise CommandExit(EXIT_USAGE, f"{problem} {fix}")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return self.host == "localhost" or (_is_ip_address(self.host) and ip_address(self.host).is_loopback)

    @property
    def allowed_hosts(self) -> list[str]:
        """Host names to accept in requests; all if it listens on every address, where a token is required."""
        return [*self.host_names, "*" if self.listens_everywhere else self._url_host]

    def allowed_hosts_with_port(self, port: int) -> list[str]:
        """Host names to accept in requests, the address itself only with its port; loopback names are not listed."""
        own = "*" if self.listens_everywhere else f"{self._url_host}:{port}"
        return [*self.host_names, own]

    @property
    def listens_everywhere(self) -> bool:
        """Whether it listens on every address of this machine."""
        # 0.0.0.0 and `::` stand for every address of the machine.
        return _is_ip_address(self.host) and ip_address(self.host).is_unspecified

    @property
    def _url_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    def url(self, port: int) -> str:
        """The URL where it listens."""
        return f"http://{self._url_host}:{port}{self.path}"

    def client_url(self, port: int) -> str:
        """The URL for a client, with this machine's name if it listens on every address."""
        return f"http://{socket.gethostname()}:{port}{self.path}" if self.listens_everywhere else self.url(port)

    def bind_sockets(self) -> list[socket.socket]:
        """Open the listening sockets; end the command if the address cannot be used."""
        from surehand.gateway.mcp.http.server import bind_sockets

        try:
            return bind_sockets(self.host, self.port)
        except (OSError, UnicodeError, OverflowError) as error:
            raise CommandExit(EXIT_USAGE, self._bind_error_message(error)) from error

    def _bind_error_message(self, error: Exception) -> str:
        code = getattr(error, "errno", None)
        if code == errno.EADDRINUSE:
            return f"Port {self.port} on {self.host} is in use. Choose another with --port; 0 is any that is free."
        if code == errno.EACCES:
            return f"Port {self.port} is reserved for administrators. Choose one from 1024 on with --port."
        if isinstance(error, socket.gaierror | UnicodeError) or code == errno.EADDRNOTAVAIL:
            return f"{self.host!r} is not an address of this machine. Choose one with --host."
        return f"Cannot listen on {self.host}, port {self.port}: {error}"


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
