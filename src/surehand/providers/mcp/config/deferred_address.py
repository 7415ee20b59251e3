"""`DeferredAddress`: the address of a server whose command or URL holds variables, which are resolved on connecting.

`build_address` makes it from an entry. `surehand doctor` uses its checks, which start nothing.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from surehand.core.errors import DefinitionError, ToolError
from surehand.providers.mcp.addresses.address import ServerAddress
from surehand.providers.mcp.auth.oauth import OAuth, client_credentials, oauth
from surehand.providers.mcp.config.server_entry import ServerEntry
from surehand.providers.mcp.config.variables import Variables, has_references, read_env_file
from surehand.providers.mcp.connection_owner import ConnectionOwner
from surehand.providers.mcp.connection_secrets import ConnectionSecrets
from surehand.providers.mcp.transports.transport import OnConnectionEnd

_URL_CREDENTIALS = re.compile(r"(?<=://)[^/@]*@")
_URL_QUERY = re.compile(r"[?#].*\Z", re.DOTALL)


class DeferredAddress(ServerAddress):
    """Resolves its variables at each connection.

    Label and identity keep the references unresolved: no value of a variable gets into logs, manifests or lock files.
    """

    def __init__(self, entry: ServerEntry, variables: Variables, location: str = "") -> None:
        self._entry = entry
        self._variables = variables
        self._location = location
        self._stdio_options: dict[str, Any] | None = None
        self._resolved: ServerAddress | None = None
        """The address of the last connection."""
        self.namespace = str(entry.options["namespace"])
        if entry.transport_type != "stdio" and has_references(entry.url):  # not a valid URL before it is resolved
            self.label = _strip_credentials(entry.url)
            self.identity = f"{entry.transport_type}:{self.label}"
        else:
            unresolved = self._build_address(_keep_text, with_auth=False)
            self.label = unresolved.label
            self.identity = unresolved.identity

    def create_transports(
        self, owner: ConnectionOwner, on_end: OnConnectionEnd, secrets: ConnectionSecrets | None = None
    ) -> Sequence[Any]:
        """Resolve the variables and create the transports of the resulting address."""
        self._resolved = self.resolve()
        if secrets is not None:
            secrets.add(self._variables.referenced_values(self._entry.texts_with_variables()))
        return self._resolved.create_transports(owner, on_end, secrets)

    def resolve(self) -> ServerAddress:
        """The address with the current values of its variables; raises `DefinitionError` that names the file."""
        address = self._build_address(self.substitute)
        address.configured_by = self
        address.label = self.label
        address.identity = self.identity
        return address

    def check_variables(self) -> None:
        """Raise `DefinitionError` if a variable of the entry is not set."""
        self._resolve_variables()

    def _resolve_variables(self) -> ServerAddress:
        """The resolved address. Raises `DefinitionError` also if a variable of environment or headers is not set."""
        self._environment(ConnectionOwner())
        self._request_headers(ConnectionOwner())
        return self.resolve()

    def exit_report(self) -> str:
        """How the last process ended, for a person; empty if there is none."""
        return self._resolved.exit_report() if self._resolved is not None else ""

    def is_permanent_error(self, error: BaseException) -> bool:
        """Whether a retry fails too, for example because a variable is not set."""
        if self._resolved is None:
            return super().is_permanent_error(error)
        return self._resolved.is_permanent_error(error)

    def should_try_next_transport(self, error: BaseException) -> bool:
        """Whether this error of the first request means that the next transport is to be tried."""
        return self._resolved is not None and self._resolved.should_try_next_transport(error)

    def substitute(self, text: str) -> str:
        """A text with the values of its variables."""
        return self._variables.substitute(text, self._error)

    async def find_problem(self) -> str:
        """A problem that is found without starting the server, such as a missing variable or command; else empty."""
        from surehand.providers.mcp.addresses.stdio import StdioAddress  # loads the process and sandbox modules

        try:
            address = self._resolve_variables()
            if isinstance(address, StdioAddress):
                address.validate_start(await address.sandbox_for(ConnectionOwner()))
        except (DefinitionError, ToolError) as error:
            return str(error)
        return ""

    def configured_secrets(self) -> ConnectionSecrets:
        """The secrets among the environment, the headers and the variables of the entry, as far as they are set."""
        secrets = ConnectionSecrets()
        secrets.add({**self._entry.env, **self._entry.headers})
        secrets.add(self._variables.referenced_values(self._entry.texts_with_variables()))
        with suppress(DefinitionError):
            secrets.add(self._environment(ConnectionOwner()))
            secrets.add(self._request_headers(ConnectionOwner()))
        return secrets

    def is_signed_in(self, user: str | None = None) -> bool | None:
        """Whether a user has signed in, or the person at this machine; None if the server has no `auth: oauth`."""
        if not isinstance(self.auth, OAuth):
            return None
        return self.auth.is_signed_in(self.substitute(self._entry.url), user)

    async def sign_in(self, user: str | None, show_url: Callable[[str], Awaitable[None]]) -> None:
        """Resolve the variables and sign a user in."""
        await self.resolve().sign_in(user, show_url)

    def _build_address(self, substitute: Callable[[str], str], *, with_auth: bool = True) -> ServerAddress:
        if self._entry.transport_type == "stdio":
            return self._build_stdio(substitute)
        return self._build_remote(substitute(self._entry.url), with_auth)

    def _build_stdio(self, substitute: Callable[[str], str]) -> ServerAddress:
        from surehand.providers.mcp.addresses.stdio import StdioAddress  # loads the process and sandbox modules

        cwd = self._working_directory(substitute)
        command = self._program_path(substitute(self._entry.command), cwd)
        args = map(substitute, self._entry.args)
        is_default = not self._entry.cwd
        options = self._build_connection_options()
        return StdioAddress(command, *args, env=self._environment, cwd=cwd, is_cwd_default=is_default, **options)

    def _working_directory(self, substitute: Callable[[str], str]) -> Path | None:
        """The `cwd` of the entry, else the folder of the file; a sandboxed command gets no folder that is not named."""
        if self._entry.cwd:
            return self._variables.resolve_path(substitute(self._entry.cwd))
        if self._location and not self._entry.connection_options.get("sandbox"):
            return self._variables.workspace_folder
        return None

    @staticmethod
    def _program_path(command: str, cwd: Path | None) -> str:
        """A path is relative to the working directory; a name without a slash is searched in `PATH`."""
        path = Path(command).expanduser()
        is_path = len(path.parts) > 1 and not command.startswith("${")
        return str((cwd or Path()) / path) if is_path else command

    def _environment(self, owner: ConnectionOwner) -> dict[str, str]:
        environment: dict[str, str] = {}
        if self._entry.env_file:
            path = self._variables.resolve_path(self.substitute(self._entry.env_file))
            environment |= self._read_env_file(path)
        return environment | {name: self.substitute(value) for name, value in self._entry.env.items()}

    def _read_env_file(self, path: Path) -> Mapping[str, str]:
        try:
            return read_env_file(path)
        except (OSError, UnicodeDecodeError):
            raise self._error("its envFile cannot be read", "give a file of NAME=value lines.") from None

    def _build_connection_options(self) -> dict[str, Any]:
        """The connection options as `StdioAddress` takes them, with a `Sandbox` object; built once."""
        if self._stdio_options is None:
            self._stdio_options = self._options_with_sandbox()
        return self._stdio_options

    def _options_with_sandbox(self) -> dict[str, Any]:
        options = dict(self._entry.connection_options)
        sandbox = options.pop("sandbox", False)
        if not sandbox:
            return options
        from surehand.sandbox.sandbox import Sandbox  # few servers have one

        settings = {} if sandbox is True else dict(sandbox)
        for name in {"read", "write"} & set(settings):
            settings[name] = [self._variables.resolve_path(path) for path in settings[name]]
        return {**options, "sandbox": Sandbox(**settings)}

    def _build_remote(self, url: str, with_auth: bool) -> ServerAddress:
        if self._entry.transport_type == "websocket":
            from surehand.providers.mcp.addresses.websocket import WebSocketAddress  # loads websockets, an extra

            return WebSocketAddress(url, headers=self._request_headers, **self._entry.connection_options)
        from surehand.providers.mcp.addresses.http import HttpAddress, SseAddress  # loads the HTTP modules

        auth = self.auth if with_auth else None
        address_type = HttpAddress if self._entry.transport_type == "http" else SseAddress
        return address_type(url, headers=self._request_headers, auth=auth, **self._entry.connection_options)

    def _request_headers(self, owner: ConnectionOwner) -> dict[str, str]:
        return {name: self.substitute(value) for name, value in self._entry.headers.items()}

    @cached_property
    def auth(self) -> Any:
        """The OAuth settings of the entry; built once, because they cache the auth of each user."""
        if self._entry.auth is None:
            return None
        settings: dict[str, Any] = {
            name: self.substitute(value) if isinstance(value, str) else value
            for name, value in self._entry.auth.items()
        }
        grant = settings.pop("type")
        return oauth(**settings) if grant == "oauth" else client_credentials(**settings)

    def _error(self, problem: str, fix: str) -> DefinitionError:
        return DefinitionError(
            f"The MCP server {self._entry.name!r} cannot be used: {problem}.", fix=fix, where=self._location
        )


def build_address(entry: ServerEntry, variables: Variables, location: str = "") -> ServerAddress:
    """The address of an entry, deferred if command, URL or auth hold references.

    Environment and headers may hold references in any case: they are functions that are called on connecting.
    """
    deferred = DeferredAddress(entry, variables, location)
    auth_texts = [value for value in (entry.auth or {}).values() if isinstance(value, str)]
    texts = (entry.command, *entry.args, entry.cwd or "", entry.url, *auth_texts)
    return deferred if any(map(has_references, texts)) else deferred.resolve()


def _keep_text(text: str) -> str:
    return text


def _strip_credentials(url: str) -> str:
    return _URL_QUERY.sub("", _URL_CREDENTIALS.sub("", url))
