"""Late: the way to a server whose command or URL has variables, which are filled in when it is used."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from surehand.core.errors import DefinitionError, ToolError
from surehand.providers.mcp.addresses.address import Ended, ServerAddress, Who
from surehand.providers.mcp.written.entry import Entry
from surehand.providers.mcp.written.variables import Variables, from_file, has_references

_USER, _QUERY = re.compile(r"(?<=://)[^/@]*@"), re.compile(r"[?#].*\Z", re.DOTALL)


class Late(ServerAddress):
    """It is shown, and remembered, as it is written: so no value of a variable gets there."""

    def __init__(self, entry: Entry, variables: Variables, where: str = "") -> None:
        self._entry, self._variables, self._where = entry, variables, where
        self._now: ServerAddress | None = None
        self.namespace = str(entry.options["namespace"])
        if entry.kind != "stdio" and has_references(entry.url):  # as it stands, it is no URL
            self.label = _without_secrets(entry.url)
            self.identity = f"{entry.kind}:{self.label}"
        else:
            shown = self._made(_as_written, signs=False)
            self.label, self.identity = shown.label, shown.identity

    def transports(self, who: Who, ended: Ended) -> Sequence[Any]:
        """What the way of this moment gives."""
        self._now = self.now()
        return self._now.transports(who, ended)

    def now(self) -> ServerAddress:
        """The way as it is at this moment; its troubles are told in the words of the file."""
        made = self._made(self.filled)
        made.label, made.identity = self.label, self.identity
        return made

    def exit_report(self) -> str:
        """How the process that was started last ended."""
        return self._now.exit_report() if self._now is not None else ""

    def hopeless(self, error: BaseException) -> bool:
        """Whether another try cannot help: as where a variable is missing."""
        return super().hopeless(error) if self._now is None else self._now.hopeless(error)

    def falls_back(self, error: BaseException) -> bool:
        """Whether an error while connecting means: try the next target."""
        return self._now is not None and self._now.falls_back(error)

    def filled(self, text: str) -> str:
        """A text with its variables filled in."""
        return self._variables.filled(text, self._error)

    async def problem(self) -> str:
        """What can be known to be wrong without starting anything: a variable, or a command that is not there."""
        from surehand.providers.mcp.addresses.stdio import Stdio

        try:
            made = self.now()
            self._env(Who()), self._headers(Who())
            if isinstance(made, Stdio):
                made.check(await made.surroundings(Who()))
        except (DefinitionError, ToolError) as error:
            return str(error)
        return ""

    def secrets(self) -> list[str]:
        """What was filled in for a server's eyes alone."""
        given = [*self._entry.env.values(), *self._entry.headers.values()]
        try:
            return [*map(self.filled, given), *self._env(Who()).values()]
        except DefinitionError:
            return given

    def signed_in(self) -> bool | None:
        """Whether the person at this machine has signed in; None where nobody has to."""
        from surehand.providers.mcp.auth.oauth import OAuth

        if not isinstance(self.auth, OAuth):
            return None
        kept = self.auth.tokens.of(self.filled(self._entry.url), None).read()
        return kept.access is not None and (kept.renewable or not kept.stale())

    def _made(self, fill: Callable[[str], str], *, signs: bool = True) -> ServerAddress:
        return self._command(fill) if self._entry.kind == "stdio" else self._url(fill(self._entry.url), signs)

    def _command(self, fill: Callable[[str], str]) -> ServerAddress:
        from surehand.providers.mcp.addresses.stdio import Stdio

        entry, cwd = self._entry, self._folder(fill)
        command = self._program(fill(entry.command), cwd)
        return Stdio(command, *map(fill, entry.args), env=self._env, cwd=cwd, **self._limits)

    def _folder(self, fill: Callable[[str], str]) -> Path | None:
        """Where the command runs: as its entry says, or beside the file; a sandbox is not shown that unasked."""
        if self._entry.cwd:
            return self._variables.path(fill(self._entry.cwd))
        return self._variables.workspace if self._where and not self._entry.limits.get("sandbox") else None

    @staticmethod
    def _program(command: str, cwd: Path | None) -> str:
        """A path is meant where the command runs; a mere name is looked for as always."""
        path = Path(command).expanduser()
        return str((cwd or Path()) / path) if len(path.parts) > 1 and not command.startswith("${") else command

    def _env(self, who: Who) -> dict[str, str]:
        entry = self._entry
        beside = self._from_file(self._variables.path(self.filled(entry.env_file))) if entry.env_file else {}
        return {**beside, **{name: self.filled(value) for name, value in entry.env.items()}}

    def _from_file(self, path: Path) -> Mapping[str, str]:
        try:
            return from_file(path)
        except (OSError, UnicodeDecodeError):
            raise self._error("its envFile cannot be read", "name a file of NAME=value lines.") from None

    @cached_property
    def _limits(self) -> dict[str, Any]:
        from surehand.sandbox.sandbox import Sandbox

        given = dict(self._entry.limits)
        wanted = given.pop("sandbox", False)
        if not wanted:
            return given
        settings = {} if wanted is True else dict(wanted)
        for name in {"read", "write"} & set(settings):
            settings[name] = [self._variables.path(path) for path in settings[name]]
        return {**given, "sandbox": Sandbox(**settings)}

    def _url(self, url: str, signs: bool) -> ServerAddress:
        if self._entry.kind == "websocket":
            from surehand.providers.mcp.addresses.websocket import WebSocket

            return WebSocket(url, headers=self._headers, **self._entry.limits)
        from surehand.providers.mcp.addresses.http import Http, Sse

        auth = self.auth if signs else None
        made = Http if self._entry.kind == "http" else Sse
        return made(url, headers=self._headers, auth=auth, **self._entry.limits)

    def _headers(self, who: Who) -> dict[str, str]:
        return {name: self.filled(value) for name, value in self._entry.headers.items()}

    @cached_property
    def auth(self) -> Any:
        """Who we are to the server; made once, because it remembers who is signed in."""
        from surehand.providers.mcp.auth.oauth import client_credentials, oauth

        if self._entry.auth is None:
            return None
        given: dict[str, Any] = {
            name: self.filled(value) if isinstance(value, str) else value for name, value in self._entry.auth.items()
        }
        return oauth(**given) if given.pop("type") == "oauth" else client_credentials(**given)

    def _error(self, problem: str, fix: str) -> DefinitionError:
        return DefinitionError(
            f"The MCP server {self._entry.name!r} cannot be used: {problem}.", fix=fix, where=self._where
        )


def route_of(entry: Entry, variables: Variables, where: str = "") -> ServerAddress:
    """The way to a server: at once where only what it is told has references, for that is asked for late anyway."""
    late = Late(entry, variables, where)
    signing = [value for value in (entry.auth or {}).values() if isinstance(value, str)]
    fixed = (entry.command, *entry.args, entry.cwd or "", entry.url, *signing)
    return late if any(map(has_references, fixed)) else late.now()


def _as_written(text: str) -> str:
    return text


def _without_secrets(url: str) -> str:
    return _QUERY.sub("", _USER.sub("", url))
