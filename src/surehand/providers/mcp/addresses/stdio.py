"""The address of a server that runs as a child process and uses its standard input and output."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from os import PathLike
from typing import Any

from surehand.core.durations import parse_size
from surehand.core.errors import DefinitionError
from surehand.providers.mcp.addresses.address import DEFAULT_MAX_FRAME_BYTES, ServerAddress
from surehand.providers.mcp.connection_errors import PermanentConnectionError
from surehand.providers.mcp.connection_owner import ConnectionOwner, HeadersOrEnv, resolve_headers_or_env
from surehand.providers.mcp.connection_secrets import ConnectionSecrets
from surehand.providers.mcp.labels import namespace_from_command, render_command_line
from surehand.providers.mcp.transports.transport import OnConnectionEnd, Transport
from surehand.sandbox.sandbox import Sandbox, Unprotected
from surehand.workspace.started_programs import (
    make_paths_absolute,
    needs_own_folder,
    python_variables,
    register_program,
    safe_start_folder,
)

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
        cwd: its working directory; by default that of this process, or the home folder if tools may write there.
        is_cwd_default: whether nobody asked for `cwd`, so that it may start in another folder.
        sandbox: a `Sandbox` to start it in. The limits apply while the server runs.
        max_frame: largest message in bytes.
    """

    def __init__(
        self,
        command: str,
        *args: str,
        env: HeadersOrEnv = None,
        cwd: str | PathLike[str] | None = None,
        is_cwd_default: bool = False,
        sandbox: Sandbox | Unprotected | None = None,
        max_frame: int | str = DEFAULT_MAX_FRAME_BYTES,
    ) -> None:
        self.argv = _validate_command_words([command, *args])
        self.cwd = None if cwd is None else os.path.abspath(os.path.expanduser(cwd))
        self._is_cwd_default = is_cwd_default or cwd is None
        register_program(self.argv, self._configured_folder)
        self._needs_own_folder = needs_own_folder(self.argv, self._configured_folder)
        self._env = env
        self._sandbox = sandbox
        self.max_frame = int(parse_size(max_frame))
        self.label = render_command_line(self.argv)
        self.identity = f"stdio:{self.label}" + (f":{self.cwd}" if self.cwd else "")
        self.namespace = namespace_from_command(self.argv)
        self._last_transport: Transport | None = None

    @property
    def _configured_folder(self) -> str:
        return self.cwd or os.getcwd()

    def start_command(self, folder: str) -> list[str]:
        """The command line for starting the server in a folder that `validate_start` returned."""
        if folder == self._configured_folder or not self._is_cwd_default:
            return self.argv
        return make_paths_absolute(self.argv, self._configured_folder)

    def create_transports(
        self, owner: ConnectionOwner, on_end: OnConnectionEnd, secrets: ConnectionSecrets | None = None
    ) -> Sequence[Transport]:
        """Create the one transport, which starts the process when it is opened."""
        from surehand.providers.mcp.transports.stdio import StdioTransport  # loads the MCP SDK

        self._last_transport = StdioTransport(self, owner, on_end, secrets)
        return [self._last_transport]

    def exit_report(self) -> str:
        """How the last process ended, and the last lines of its stderr."""
        return "" if self._last_transport is None else self._last_transport.exit_report()

    async def sandbox_for(
        self, owner: ConnectionOwner, secrets: ConnectionSecrets | None = None
    ) -> Sandbox | Unprotected:
        """The sandbox of the process, with the environment variables for one owner."""
        given = await resolve_headers_or_env(self._env, owner, secrets)
        variables = python_variables(self.argv, self._configured_folder, needs_folder=self._needs_own_folder)
        env = {**variables, **given}
        if secrets is not None:
            secrets.add_command(self.argv)
        if self._sandbox is not None:
            if secrets is not None:
                secrets.add(self._sandbox.env)
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
        if self._is_cwd_default and not isinstance(sandbox, Sandbox) and os.path.isdir(folder):
            folder = safe_start_folder(folder)
        if not os.path.isdir(folder):
            raise PermanentConnectionError(
                f"{self.label} cannot be started: there is no folder {folder}. Fix: change `cwd`."
            )
        if not isinstance(sandbox, Sandbox):
            self._check_command(sandbox.environment["PATH"], self._configured_folder)
        return folder

    def _check_command(self, search_path: str, directory: str) -> None:
        command = self.argv[0]
        program = os.path.join(directory, command) if os.sep in command else command
        if shutil.which(program, path=search_path) is not None:
            return
        problem = "is not found. Fix: install it, or give its full path."
        if os.path.isdir(program):
            problem = "is a folder. Fix: give the path of the program in it."
        elif os.path.exists(program):
            problem = "is not executable (permission denied). Fix: make it executable with chmod +x."
        raise PermanentConnectionError(f"{self.label} cannot be started: the command {command!r} {problem}")


def _validate_command_words(words: Sequence[Any]) -> list[str]:
    for word in words:
        if not isinstance(word, (str, PathLike)) or "\0" in os.fspath(word):
            raise DefinitionError(
                f"{word!r} is not a word of a command.", fix="give the command and its arguments as strings."
            )
    if not os.fspath(words[0]).strip():
        raise DefinitionError("The command is empty.", fix="give the command that starts the server.")
    return [os.fspath(word) for word in words]
