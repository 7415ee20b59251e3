"""Quick: the short way of a plain call, which is most of them.

The library makes a connection, a context and three models for each request, and looks at our finished answer once
more: that takes longer than the call. A call that asks for nothing beside its result needs none of it.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    ClientCapabilities,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolwright.core.outcome import Outcome
from toolwright.gateway.mcp.caller import Caller, caller_of, caller_with
from toolwright.gateway.mcp.older import fitting
from toolwright.gateway.mcp.result import result_of

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from toolwright.gateway.mcp.runtime_server import RuntimeServer
    from toolwright.gateway.mcp.served import Offered

_KNOWN = {"name", "arguments", "_meta"}
_ENVELOPE = {PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY}


class Request(NamedTuple):
    """What is known of a request that the library has not seen: as much as those need who tell of its outcome."""

    protocol_version: str
    meta: None = None


class Quick:
    """Calls tools past the library, and tells what came of it in its words."""

    def __init__(self, server: RuntimeServer) -> None:
        self._server, self._served = server, server.served

    def plain(self, params: Any, user: str | None, *, modern: bool) -> Offered | None:
        """The tool that is called, if the call is plain: no progress, no task, no answers, and nothing odd about it."""
        if type(params) is not dict or not params.keys() <= _KNOWN:
            return None
        name, arguments, meta = params.get("name"), params.get("arguments"), params.get("_meta")
        if type(name) is not str or not (arguments is None or type(arguments) is dict):
            return None
        if not (_is_plain_modern(meta) if modern else meta is None or meta == {}):
            return None
        offered = self._served.find(name, user)
        return offered if offered is not None and offered.task_support == "forbidden" else None

    def call(self, offered: Offered, params: Mapping[str, Any], user: str | None) -> Coroutine[Any, Any, Outcome]:
        """Run it for a user, or for whom all calls are that do not say."""
        scope = self._served.scope(user or self._served.options.user)
        return scope.call(offered.listing.name, params.get("arguments") or {})

    def result(self, outcome: Outcome, offered: Offered, version: str) -> dict[str, Any]:
        """What the client is given; raises `MCPError` where there is no result."""
        modern = version in MODERN_PROTOCOL_VERSIONS
        return self._stamped(result_of(outcome, offered, is_modern=modern), version, modern)

    async def waiting(
        self, outcome: Outcome, offered: Offered, params: Mapping[str, Any], user: str | None
    ) -> dict[str, Any]:
        """The same of a call that waits for somebody, in the newer protocol: a question, a task, or that it waits."""
        meta = params["_meta"]
        version = meta[PROTOCOL_VERSION_META_KEY]
        caller = self._caller(meta[CLIENT_CAPABILITIES_META_KEY], user)
        told = await self._server.calls.after(Request(version), caller, offered, params.get("arguments"), outcome)
        return self._stamped(dict(told), version, True)

    async def asking(
        self, ctx: ServerRequestContext[Any, Any], outcome: Outcome, offered: Offered, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The same in the older protocol, where whoever called is asked within its request."""
        caller = caller_of(ctx, self._served.options.user)
        told = await self._server.calls.after(ctx, caller, offered, params.get("arguments"), outcome)
        return {key: value for key, value in told.items() if key != "resultType"}

    def _caller(self, said: Any, user: str | None) -> Caller:
        try:
            known = ClientCapabilities.model_validate(said, by_name=False)
        except ValidationError:
            known = None
        return caller_with(known, user or self._served.options.user, modern=True, asks=True)

    def _stamped(self, result: dict[str, Any], version: str, modern: bool) -> dict[str, Any]:
        if not modern:
            del result["resultType"]
            return fitting(result, version)
        stamp = {SERVER_INFO_META_KEY: self._server._server_info_stamp_source}
        result["_meta"] = {**meta, **stamp} if (meta := result.get("_meta")) else stamp
        return result


def _is_plain_modern(meta: Any) -> bool:
    return (
        type(meta) is dict
        and meta.keys() <= _ENVELOPE
        and meta.get(PROTOCOL_VERSION_META_KEY) in MODERN_PROTOCOL_VERSIONS
        and type(meta.get(CLIENT_CAPABILITIES_META_KEY)) is dict
        and type(meta.get(CLIENT_INFO_META_KEY)) in (dict, type(None))
    )
