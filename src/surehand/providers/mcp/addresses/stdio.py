"""The address of a server that runs as a child process and uses its standard input and output."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from os import PathLike
from typing import TYPE_CHECKING, Any

from surehand.core.durations import parse_size
from surehand.core.errors import DefinitionError
from surehand.providers.mcp.addresses.address import (
    DEFAULT_MAX_FRAME_BYTES,
    ConnectionOwner,
    HeadersOrEnv,
    OnConnectionEnd,
    ServerAddress,
    resolve_headers_or_env,
)
from surehand.providers.mcp.addresses.labels import namespace_from_command, render_command_line
from surehand.providers.mcp.transports.connection_errors import PermanentConnectionError
from surehand.sandbox.sandbox import Sandbox, Unprotected

if TYPE_CHECKING:
    from surehand.providers.mcp.transports.transport import Transport

INHERITED_VARIABLES = (
    *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"),
    *("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
)
"""Environment variables that every server inherits: those that the MCP SDK passes on, locale, folders and certificates.
None of them holds a secret."""
_MAX_PROCESSES = 1 << 20
"""As good as no limit: the kernel's limit counts all processes of the user, not only those of the server."""


class StdioAddress(ServerAddress):
    """A server that is a child process. Its processes end with the connection, or with this process.

    Args:
        command: the program to start; its arguments follow.
        env: variables in addition to `INHERITED_VARIABLES`; or a function of the owner that returns them.
        cwd: its working directory; by default that of this process.
        sandbox: a `Sandbox` to start it in. The limits apply while the server runs.
        max_frame: largest message in bytes.
    """

    def __init__(
        self,
        command: str,
        *args: str,
        env: HeadersOrEnv = None,
        cwd: str | PathLike[str] | None = None,
        sandbox: Sandbox | Unprotected | None = None,
        max_frame: int | str = DEFAULT_MAX_FRAME_BYTES,
    ) -> None:
        self.argv = _validate_command_words([command, *args])
        self.cwd = None if cwd is None else os.path.abspath(os.path.expanduser(cwd))
        self._env = env
        self._sandbox = sandbox
        self.max_frame = int(parse_size(max_frame))
        self.label = render_command_line(self.argv)
        self.identity = f"stdio:{self.label}" + (f":{self.cwd}" if self.cwd else "")
        self.namespace = namespace_from_command(self.argv)
        self._last_transport: Transport | None = None

    def create_transports(self, owner: ConnectionOwner, on_end: OnConnectionEnd) -> Sequence[Transport]:
        """Create the one transport, which starts the process when it is opened."""
        from surehand.providers.mcp.transports.stdio import StdioTransport  # loads the MCP SDK

        self._last_transport = StdioTransport(self, owner, on_end)
        return [self._last_transport]

    def exit_report(self) -> str:
        """How the last process ended, and the last lines of its stderr."""
        return "" if self._last_transport is None else self._last_transport.exit_report()

    async def sandbox_for(self, owner: ConnectionOwner) -> Sandbox | Unprotected:
        """The sandbox of the process, with the environment variables for one owner."""
        env = await resolve_headers_or_env(self._env, owner)
        if self._sandbox is not None:
            return replace(self._sandbox, env={**self._sandbox.env, **env})
        # A value that starts with "()" is a function exported by bash, which a child's shell would evaluate.
        inherited = {
            name: os.environ[name] for name in INHERITED_VARIABLES if not os.environ.get(name, "()").startswith("()")
        }
        env = {**inherited, **env}
        return Unprotected(env=env, cpu=inf, memory=inf, file_size=inf, open_files=inf, processes=_MAX_PROCESSES)

    def validate_start(self, sandbox: Sandbox | Unprotected) -> str:
        """Return the working directory. Raises `PermanentConnectionError` if it, or the command, does not exist."""
        folder = self.cwd or ("/tmp" if isinstance(sandbox, Sandbox) else os.getcwd())
        if not os.path.isdir(folder):
            raise PermanentConnectionError(
                f"{self.label} cannot be started: there is no folder {folder}. Fix: change `cwd`."
            )
        if not isinstance(sandbox, Sandbox):
            self._check_command(sandbox.environment["PATH"], folder)
        return folder

    def _check_command(self, search_path: str, directory: str) -> None:
        command = self.argv[0]
        program = os.path.join(directory, command) if os.sep in command else command
        if shutil.which(program, path=search_path) is None:
            problem = "is not executable" if os.path.exists(program) else "is not found"
            raise PermanentConnectionError(
                f"{self.label} cannot be started: the command {command!r} {problem}. "
                "Fix: install it, or give its full path."
            )


def _validate_command_words(words: Sequence[Any]) -> list[str]:
    for word in words:
        if not isinstance(word, (str, PathLike)) or "\0" in os.fspath(word):
            raise DefinitionError(
                f"{word!r} is not a word of a command.", fix="give the command and its arguments as strings."
            )
    if not os.fspath(words[0]).strip():
        raise DefinitionError("The command is empty.", fix="give the command that starts the server.")
    return [os.fspath(word) for word in words]
