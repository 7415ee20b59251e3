"""Entry: one server as people write it in their files, in our words."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from surehand.core.jsonc import Way
from surehand.core.names import is_legal
from surehand.providers.mcp.written.keys import (
    COMMAND,
    FURTHER,
    IN_PYTHON,
    KEYS,
    LIMITS,
    NOTED,
    NOTED_OF_AUTH,
    OPTIONS,
    OTHERS,
    URL,
    is_editors,
)
from surehand.providers.mcp.written.written import Written, flag, one_of, snake, text, texts, whole, word, words

Kind: TypeAlias = Literal["stdio", "http", "sse", "websocket"]
Found: TypeAlias = Mapping[str, Written]


@dataclass(frozen=True, slots=True)
class Entry:
    """One server: how it is reached, with its references still in it, and its options."""

    name: str
    kind: Kind
    at: Way = ()
    """The way to it in its file."""
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    env_file: str | None = None
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    auth: Mapping[str, Any] | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    """`sandbox` and `max_frame`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """As `mcp.stdio` and the others take them."""
    enabled: bool = True
    notes: tuple[str, ...] = ()
    """What of it was left out, and why."""

    def texts(self) -> Iterator[str]:
        """Everything in which references are filled in; they mean nothing anywhere else."""
        yield from (self.command, *self.args, *self.env.values(), self.url, *self.headers.values())
        yield from (given for given in (self.cwd, self.env_file) if given)
        yield from (value for value in (self.auth or {}).values() if isinstance(value, str))


def read_entry(name: str, given: Written, namespace: str) -> Entry:
    """One server; a text is a command or a URL. It has this namespace, unless it asks for another."""
    if isinstance(given.value, str):
        given = Written({"url" if "://" in given.value.split(" ")[0] else "command": given.value}, given.at)
    found, notes = _parted(given.known(KEYS, OTHERS, FURTHER))
    kind = _kind(name, found, given)
    options = {IN_PYTHON.get(key, key): OPTIONS[key](inside) for key, inside in found.items() if key in OPTIONS}
    return Entry(
        name,
        kind,
        given.at,
        **(_command(found) if kind == "stdio" else _url(found)),
        limits={key: LIMITS[key](inside) for key, inside in found.items() if key in LIMITS},
        options={**options, **_shared(found), "namespace": _namespace(found, namespace)},
        enabled=_switch(found, "enabled", True) and not _switch(found, "disabled", False),
        notes=notes,
    )


def _parted(found: Found) -> tuple[Found, tuple[str, ...]]:
    """What means something here, and what of the rest is told."""
    left = {key: why for key, why in NOTED.items() if key in found}
    if "sandbox" in found and is_editors(found["sandbox"]):
        left["sandbox"] = NOTED["sandbox_enabled"]
    notes = [f"{found[key].key} is left out: {why}." for key, why in left.items()]
    auth = found["auth"].value if "auth" in found else None
    named = {snake(str(key)): key for key in auth} if isinstance(auth, Mapping) else {}
    notes += [f"{named[key]} is left out: {why}." for key, why in NOTED_OF_AUTH.items() if key in named]
    return {key: inside for key, inside in found.items() if key not in left}, tuple(notes)


_TYPE = one_of(
    stdio="stdio", local="stdio", http="http", streamable_http="http", streamablehttp="http", sse="sse",
    websocket="websocket", ws="websocket", remote="remote",
)  # fmt: skip


def _kind(name: str, found: Found, given: Written) -> Kind:
    """As its type says; without one, a command is started and a URL is looked at."""
    reached = [key for key in ("command", "url") if key in found]
    if not reached:
        raise given.mistake(f"{name} has neither a command nor a url.", "write command: ..., or url: ....")
    kind = _TYPE(found["type"]) if "type" in found else "stdio" if "command" in found else "remote"
    needed, others = ("command", URL) if kind == "stdio" else ("url", COMMAND)
    if needed not in found:
        raise given.mistake(f"{name} is of type {kind}, which needs a {needed}.", f"write {needed}: ....")
    for key in others:
        if key in found:
            where = "is started here" if kind == "stdio" else "is reached by its url"
            raise found[key].mistake(f"{name} {where}: {found[key].key} means nothing there.", "take it out.")
    kind = _remote(text(found["url"])) if kind == "remote" else kind
    if kind == "websocket" and "auth" in found:
        raise found["auth"].mistake(f"{name} is a web socket, where nobody signs in.", "say who you are by headers.")
    return cast(Kind, kind)


def _remote(url: str) -> Kind:
    if url.lower().startswith(("ws://", "wss://")):
        return "websocket"
    return "sse" if "/sse" in url else "http"


def _command(found: Found) -> dict[str, Any]:
    first, *rest = _words(found["command"], alone="args" not in found)
    return {
        "command": first,
        "args": (*rest, *(word(item) for item in found["args"].items())) if "args" in found else tuple(rest),
        "env": words(found["env"]) if "env" in found else {},
        "env_file": text(found["env_file"]) if "env_file" in found else None,
        "cwd": text(found["cwd"]) if "cwd" in found else None,
    }


def _words(given: Written, *, alone: bool) -> list[str]:
    """A command is a list, or a text; one that stands alone may be a whole line."""
    if isinstance(given.value, str):
        line = text(given)
        try:
            return shlex.split(line) if alone and " " in line.strip() and not Path(line).exists() else [line]
        except ValueError:
            raise given.mistake("command has a quote that is never closed.", "write a list of words.") from None
    found = [word(item) for item in given.items("write command: npx, or a list of words.")]
    if not found or not found[0].strip():
        raise given.mistake("command is empty.", "write command: npx, or a list of words.")
    return found


def _url(found: Found) -> dict[str, Any]:
    url = text(found["url"]).strip()
    if "://" not in url and not url.startswith("${"):
        raise found["url"].mistake("url is no URL.", "write https://host/path.")
    headers = words(found["headers"]) if "headers" in found else {}
    if "bearer_token_env_var" in found:
        headers = {"Authorization": f"Bearer ${{{text(found['bearer_token_env_var'])}}}", **headers}
    return {"url": url, "headers": headers, "auth": _auth(found["auth"]) if "auth" in found else None}


_AUTH = {
    "type": one_of(oauth="oauth", client_credentials="client_credentials"),
    "scopes": lambda given: text(given).split() if isinstance(given.value, str) else texts(given),
    "client_id": text,
    "client_secret": text,
    "issuer": text,
    "redirect_port": whole,
}
_AUTH_OTHERS = {"scope": "scopes", "callback_port": "redirect_port"}


def _auth(given: Written) -> dict[str, Any] | None:
    """`oauth`, or `{type: oauth, scopes: [...], client_id, client_secret}`."""
    if isinstance(given.value, bool):
        return {"type": "oauth"} if given.value else None
    if isinstance(given.value, str):
        given = Written({"type": given.value}, given.at)
    found = given.known(_AUTH, _AUTH_OTHERS, NOTED_OF_AUTH)
    auth = {"type": "oauth", **{key: _AUTH[key](inside) for key, inside in found.items() if key in _AUTH}}
    if auth["type"] == "client_credentials":
        for key in ("client_id", "client_secret"):
            if key not in auth:
                raise given.mistake(f"client_credentials needs a {key}.", f"write {key}: ${{NAME}}.")
        if "redirect_port" in found:
            raise found["redirect_port"].mistake("client_credentials asks nobody.", "take it out.")
    return auth


def _shared(found: Found) -> dict[str, str]:
    if "shared" not in found:
        return {}
    if "per" in found:
        raise found["shared"].mistake("shared says the same as per.", "keep one of them.")
    return {"per": "everyone" if flag(found["shared"]) else "session"}


def _switch(found: Found, key: str, otherwise: bool) -> bool:
    return flag(found[key]) if key in found else otherwise


def _namespace(found: Found, otherwise: str) -> str:
    """What tools' names begin with: as the entry says, or what its own name gives."""
    if (asked := found.get("namespace") or found.get("tool_prefix")) is None:
        return otherwise
    if not is_legal(chosen := text(asked).rstrip("_-")):
        fix = "use letters, digits, _ and -, not - at the start"
        raise asked.mistake(f"{asked.key} is no name for a server.", f"{fix}.")
    return chosen
