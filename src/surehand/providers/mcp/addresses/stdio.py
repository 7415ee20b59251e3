"""Stdio: a server that is a child process and speaks over its standard input and output."""

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
"""Variables of ours that a server is given: what the protocol's own library gives, and where things are. No secrets."""
_MAX_PROCESSES = 1 << 20
"""Not a bound but the kernel's: for most users, it counts all that they run."""


class StdioAddress(ServerAddress):
    """A server that is a child process; nothing of it is left when the connection ends, or when we do.

    Args:
        command: what is started, and its arguments after it.
        env: variables beside those that every server is given; or a function of `Who` that gives them.
        cwd: where it is started; where this process is, unless something else is said.
        sandbox: a `Sandbox` to start it in. Its limits hold for as long as the server runs.
        max_frame: bytes that one message of it may have.
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
        self._env, self._sandbox = env, sandbox
        self.max_frame = int(parse_size(max_frame))
        self.label = render_command_line(self.argv)
        self.identity = f"stdio:{self.label}" + (f":{self.cwd}" if self.cwd else "")
        self.namespace = namespace_from_command(self.argv)
        self._last_transport: Transport | None = None

    def create_transports(self, owner: ConnectionOwner, on_end: OnConnectionEnd) -> Sequence[Transport]:
        """One: the process, which is started when the connection is opened."""
        from surehand.providers.mcp.transports.stdio import StdioTransport  # loads the MCP SDK

        self._last_transport = StdioTransport(self, owner, on_end)
        return [self._last_transport]

    def exit_report(self) -> str:
        """How the process that was started last ended, and the last lines that it wrote to stderr."""
        return "" if self._last_transport is None else self._last_transport.exit_report()

    async def sandbox_for(self, owner: ConnectionOwner) -> Sandbox | Unprotected:
        """Where the process is started, and with which variables."""
        env = await resolve_headers_or_env(self._env, owner)
        if self._sandbox is not None:
            return replace(self._sandbox, env={**self._sandbox.env, **env})
        own = {
            name: os.environ[name] for name in INHERITED_VARIABLES if not os.environ.get(name, "()").startswith("()")
        }
        env = {**own, **env}
        return Unprotected(env=env, cpu=inf, memory=inf, file_size=inf, open_files=inf, processes=_MAX_PROCESSES)

    def validate_start(self, sandbox: Sandbox | Unprotected) -> str:
        """The folder to start in; raises `CannotStart`, with the fix, for what can be known beforehand."""
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
        inside = os.path.join(directory, command) if os.sep in command else command
        if shutil.which(inside, path=search_path) is None:
            what = "is not executable" if os.path.exists(inside) else "is not found"
            raise PermanentConnectionError(
                f"{self.label} cannot be started: the command {command!r} {what}. "
                "Fix: install it, or give its full path."
            )


def _validate_command_words(words: Sequence[Any]) -> list[str]:
    for word in words:
        if not isinstance(word, (str, PathLike)) or "\0" in os.fspath(word):
            raise DefinitionError(
                f"{word!r} is no word of a command.", fix="give the command and its arguments as text."
            )
    if not os.fspath(words[0]).strip():
        raise DefinitionError("The command is empty.", fix="give the command that starts the server.")
    return [os.fspath(word) for word in words]
