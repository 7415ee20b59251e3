"""Place: where a server is reached over HTTP, as it is said on the command line."""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import dataclass
from ipaddress import ip_address

from surehand.cli.exit_codes import EXIT_USAGE, CommandExit

DEFAULT_HOST, DEFAULT_PORT, DEFAULT_PATH = "127.0.0.1", 8765, "/mcp"


@dataclass(frozen=True, slots=True)
class HttpEndpoint:
    """Where the server is reached over HTTP."""

    host: str
    port: int
    path: str
    token_env: str | None
    """The environment variable that holds the token which clients have to show."""
    host_names: tuple[str, ...] = ()
    """Further names that clients reach it by, such as that of a proxy in front of it."""
    allowed_origins: tuple[str, ...] = ()
    """Web pages of other sites that may talk to it."""

    @property
    def token(self) -> str | None:
        """What clients have to show; nobody but this machine may do without."""
        if self.token_env is None:
            if not self.is_loopback:
                told = f"{self.host} can be reached from other machines, so clients have to show a token."
                raise CommandExit(EXIT_USAGE, f"{told} Name the variable that holds it with --token-env NAME.")
            return None
        if not (found := os.environ.get(self.token_env)):
            raise CommandExit(EXIT_USAGE, f"The variable {self.token_env} that holds the token is not set, or empty.")
        return found

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host == "localhost" or (_is_ip_address(self.host) and ip_address(self.host).is_loopback)

    @property
    def allowed_hosts(self) -> list[str]:
        """The names that it is reached by; any where it listens everywhere, as the token keeps strangers out."""
        return [*self.host_names, "*" if self.listens_everywhere else self._url_host]

    @property
    def listens_everywhere(self) -> bool:
        """Whether it listens on every address of this machine."""
        return _is_ip_address(self.host) and ip_address(self.host).is_unspecified

    @property
    def _url_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    def url(self, port: int) -> str:
        """The address where it listens."""
        return f"http://{self._url_host}:{port}{self.path}"

    def client_url(self, port: int) -> str:
        """The address that a client uses, as far as that can be known here."""
        return f"http://{socket.gethostname()}:{port}{self.path}" if self.listens_everywhere else self.url(port)

    def bind_sockets(self) -> list[socket.socket]:
        """Its sockets."""
        from surehand.gateway.mcp.http.server import bound

        try:
            return bound(self.host, self.port)
        except (OSError, UnicodeError, OverflowError) as error:
            raise CommandExit(EXIT_USAGE, self._bind_error_message(error)) from error

    def _bind_error_message(self, error: Exception) -> str:
        code = getattr(error, "errno", None)
        if code == errno.EADDRINUSE:
            return f"Port {self.port} on {self.host} is in use. Choose another with --port; 0 is any that is free."
        if code == errno.EACCES:
            return f"Port {self.port} may only be used by administrators. Choose one from 1024 on with --port."
        if isinstance(error, socket.gaierror | UnicodeError) or code == errno.EADDRNOTAVAIL:
            return f"{self.host!r} is no address of this machine. Choose one with --host."
        return f"Nothing can be served on {self.host}, port {self.port}: {error}"


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
