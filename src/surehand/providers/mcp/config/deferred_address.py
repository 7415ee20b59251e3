"""Late: the way to a server whose command or URL has variables, which are filled in when it is used."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from surehand.core.errors import DefinitionError, ToolError
from surehand.providers.mcp.addresses.address import ConnectionOwner, OnConnectionEnd, ServerAddress
from surehand.providers.mcp.config.server_entry import ServerEntry
from surehand.providers.mcp.config.variables import Variables, has_references, read_env_file

_URL_CREDENTIALS, _URL_QUERY = re.compile(r"(?<=://)[^/@]*@"), re.compile(r"[?#].*\Z", re.DOTALL)


class DeferredAddress(ServerAddress):
    """It is shown, and remembered, as it is written: so no value of a variable gets there."""

    def __init__(self, entry: ServerEntry, variables: Variables, location: str = "") -> None:
        self._entry, self._variables, self._location = entry, variables, location
        self._resolved: ServerAddress | None = None
        self.namespace = str(entry.options["namespace"])
        if entry.transport_type != "stdio" and has_references(entry.url):  # as it stands, it is no URL
            self.label = _strip_credentials(entry.url)
            self.identity = f"{entry.transport_type}:{self.label}"
        else:
            shown = self._build_address(_unchanged, with_auth=False)
            self.label, self.identity = shown.label, shown.identity

    def create_transports(self, owner: ConnectionOwner, on_end: OnConnectionEnd) -> Sequence[Any]:
        """What the way of this moment gives."""
        self._resolved = self.resolve()
        return self._resolved.create_transports(owner, on_end)

    def resolve(self) -> ServerAddress:
        """The way as it is at this moment; its troubles are told in the words of the file."""
        made = self._build_address(self.substitute)
        made.label, made.identity = self.label, self.identity
        return made

    def exit_report(self) -> str:
        """How the process that was started last ended."""
        return self._resolved.exit_report() if self._resolved is not None else ""

    def is_permanent_error(self, error: BaseException) -> bool:
        """Whether another try cannot help: as where a variable is missing."""
        return super().is_permanent_error(error) if self._resolved is None else self._resolved.is_permanent_error(error)

    def should_try_next_transport(self, error: BaseException) -> bool:
        """Whether an error while connecting means: try the next target."""
        return self._resolved is not None and self._resolved.should_try_next_transport(error)

    def substitute(self, text: str) -> str:
        """A text with its variables filled in."""
        return self._variables.substitute(text, self._error)

    async def find_problem(self) -> str:
        """What can be known to be wrong without starting anything: a variable, or a command that is not there."""
        from surehand.providers.mcp.addresses.stdio import StdioAddress

        try:
            made = self.resolve()
            self._environment(ConnectionOwner()), self._request_headers(ConnectionOwner())
            if isinstance(made, StdioAddress):
                made.validate_start(await made.sandbox_for(ConnectionOwner()))
        except (DefinitionError, ToolError) as error:
            return str(error)
        return ""

    def secret_values(self) -> list[str]:
        """What was filled in for a server's eyes alone."""
        given = [*self._entry.env.values(), *self._entry.headers.values()]
        try:
            return [*map(self.substitute, given), *self._environment(ConnectionOwner()).values()]
        except DefinitionError:
            return given

    def is_signed_in(self) -> bool | None:
        """Whether the person at this machine has signed in; None where nobody has to."""
        from surehand.providers.mcp.auth.oauth import OAuth

        if not isinstance(self.auth, OAuth):
            return None
        kept = self.auth.tokens.file_for(self.substitute(self._entry.url), None).read()
        return kept.access_token is not None and (kept.can_refresh or not kept.is_expiring())

    def _build_address(self, substitute: Callable[[str], str], *, with_auth: bool = True) -> ServerAddress:
        return (
            self._build_stdio(substitute)
            if self._entry.transport_type == "stdio"
            else self._build_remote(substitute(self._entry.url), with_auth)
        )

    def _build_stdio(self, substitute: Callable[[str], str]) -> ServerAddress:
        from surehand.providers.mcp.addresses.stdio import StdioAddress

        entry, cwd = self._entry, self._working_directory(substitute)
        command = self._program_path(substitute(entry.command), cwd)
        return StdioAddress(
            command, *map(substitute, entry.args), env=self._environment, cwd=cwd, **self._connection_options
        )

    def _working_directory(self, substitute: Callable[[str], str]) -> Path | None:
        """Where the command runs: as its entry says, or beside the file; a sandbox is not shown that unasked."""
        if self._entry.cwd:
            return self._variables.resolve_path(substitute(self._entry.cwd))
        return (
            self._variables.workspace_folder
            if self._location and not self._entry.connection_options.get("sandbox")
            else None
        )

    @staticmethod
    def _program_path(command: str, cwd: Path | None) -> str:
        """A path is meant where the command runs; a mere name is looked for as always."""
        path = Path(command).expanduser()
        return str((cwd or Path()) / path) if len(path.parts) > 1 and not command.startswith("${") else command

    def _environment(self, owner: ConnectionOwner) -> dict[str, str]:
        entry = self._entry
        beside = (
            self._read_env_file(self._variables.resolve_path(self.substitute(entry.env_file))) if entry.env_file else {}
        )
        return {**beside, **{name: self.substitute(value) for name, value in entry.env.items()}}

    def _read_env_file(self, path: Path) -> Mapping[str, str]:
        try:
            return read_env_file(path)
        except (OSError, UnicodeDecodeError):
            raise self._error("its envFile cannot be read", "name a file of NAME=value lines.") from None

    @cached_property
    def _connection_options(self) -> dict[str, Any]:
        from surehand.sandbox.sandbox import Sandbox

        given = dict(self._entry.connection_options)
        wanted = given.pop("sandbox", False)
        if not wanted:
            return given
        settings = {} if wanted is True else dict(wanted)
        for name in {"read", "write"} & set(settings):
            settings[name] = [self._variables.resolve_path(path) for path in settings[name]]
        return {**given, "sandbox": Sandbox(**settings)}

    def _build_remote(self, url: str, with_auth: bool) -> ServerAddress:
        if self._entry.transport_type == "websocket":
            from surehand.providers.mcp.addresses.websocket import WebSocketAddress

            return WebSocketAddress(url, headers=self._request_headers, **self._entry.connection_options)
        from surehand.providers.mcp.addresses.http import HttpAddress, SseAddress

        auth = self.auth if with_auth else None
        made = HttpAddress if self._entry.transport_type == "http" else SseAddress
        return made(url, headers=self._request_headers, auth=auth, **self._entry.connection_options)

    def _request_headers(self, owner: ConnectionOwner) -> dict[str, str]:
        return {name: self.substitute(value) for name, value in self._entry.headers.items()}

    @cached_property
    def auth(self) -> Any:
        """Who we are to the server; made once, because it remembers who is signed in."""
        from surehand.providers.mcp.auth.oauth import client_credentials, oauth

        if self._entry.auth is None:
            return None
        given: dict[str, Any] = {
            name: self.substitute(value) if isinstance(value, str) else value
            for name, value in self._entry.auth.items()
        }
        return oauth(**given) if given.pop("type") == "oauth" else client_credentials(**given)

    def _error(self, problem: str, fix: str) -> DefinitionError:
        return DefinitionError(
            f"The MCP server {self._entry.name!r} cannot be used: {problem}.", fix=fix, where=self._location
        )


def build_address(entry: ServerEntry, variables: Variables, location: str = "") -> ServerAddress:
    """The way to a server: at once where only what it is told has references, for that is asked for late anyway."""
    late = DeferredAddress(entry, variables, location)
    signing = [value for value in (entry.auth or {}).values() if isinstance(value, str)]
    fixed = (entry.command, *entry.args, entry.cwd or "", entry.url, *signing)
    return late if any(map(has_references, fixed)) else late.resolve()


def _unchanged(text: str) -> str:
    return text


def _strip_credentials(url: str) -> str:
    return _URL_QUERY.sub("", _URL_CREDENTIALS.sub("", url))
