"""Short: the short way of a plain call over HTTP, past the library; whatever is not plain goes the long way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mcp.server.streamable_http import REQUEST_CANCELLED
from mcp.shared.dispatcher import as_request_id, coerce_request_id
from mcp_types import INTERNAL_ERROR, PROTOCOL_VERSION_META_KEY, ErrorData, JSONRPCRequest, RequestId

from toolwright.core.clock import Clock, Deadlines
from toolwright.core.outcome import Outcome, Pending
from toolwright.gateway.mcp.caller import user_in
from toolwright.gateway.mcp.http.envelope import headers_of, modern_call, says_headers
from toolwright.gateway.mcp.http.flights import Flights
from toolwright.gateway.mcp.http.reply import Reply, Said
from toolwright.gateway.mcp.http.sessions import Begun, Sessions
from toolwright.gateway.mcp.http.shape import Shape, failed

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from starlette.types import Receive, Scope, Send

    from toolwright.gateway.mcp.direct_call import DirectCalls
    from toolwright.gateway.mcp.runtime_server import RuntimeServer
    from toolwright.gateway.mcp.served import Offered

PARTED = ErrorData(code=INTERNAL_ERROR, message="Session terminated before the request completed")
ENDED = ErrorData(code=INTERNAL_ERROR, message="The server stopped before the request completed.")
_HANDED = "toolwright.handed"
_MOST = 10_000


class Rest(NamedTuple):
    """What the library is to go on with, and how it sends its answer."""

    scope: Scope
    send: Send


class Short:
    """Answers plain calls."""

    def __init__(self, server: RuntimeServer, flights: Flights) -> None:
        self._server, self._flights, self._shape = server, flights, Shape()
        self.sessions = Sessions(self.part)
        self.moments = Deadlines(Clock())
        self._running: dict[tuple[str, RequestId], tuple[RequestId, Reply]] = {}
        """Calls of sessions."""
        self._apart: dict[Reply, RequestId] = {}
        """Calls of the newer protocol."""
        self._schemas: dict[str, tuple[Any, bool]] = {}

    # The newer protocol

    async def modern(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> bool:
        """Whether what came was a plain call, and is answered."""
        quick = self._server.direct_calls if self.sessions.are_served else None
        if quick is None or (message := modern_call(body, scope)) is None:
            return False
        offered = quick.match(message["params"], user := user_in(scope), modern=True)
        if offered is None or self._wants_headers(offered):
            return False
        reply = Reply(receive, send, self.moments)
        self._apart[reply] = message["id"]
        try:
            await reply.of(self._called(quick, message, offered, user))
        finally:
            del self._apart[reply]
        return True

    async def _called(self, quick: DirectCalls, message: dict[str, Any], offered: Offered, user: str | None) -> Said:
        id, params = message["id"], message["params"]
        version = params["_meta"][PROTOCOL_VERSION_META_KEY]
        try:
            outcome = await quick.call(offered, params, user)
            if isinstance(outcome, Pending):
                return self._shape.result(id, await quick.pending_result(outcome, offered, params, user))
            return self._shape.result(id, quick.result(outcome, offered, version))
        except Exception as error:  # noqa: BLE001 - which goes to our log, if it is not for the client
            return self._shape.error(id, error)

    def _wants_headers(self, offered: Offered) -> bool:
        """Whether arguments have to be in headers too; looked up once as long as the schema is the same."""
        name, schema = offered.entry["name"], offered.entry["inputSchema"]
        known = self._schemas.get(name)
        if known is None or known[0] is not schema:
            if len(self._schemas) >= _MOST:
                self._schemas.clear()
            known = self._schemas[name] = schema, says_headers(schema)
        return known[1]

    # The older protocol

    async def legacy(
        self, message: JSONRPCRequest, session: str, scope: Scope, receive: Receive, send: Send
    ) -> Rest | None:
        """What is left for the library: all, or a question that a call has for its client; None if nothing is."""
        quick = self._server.direct_calls if message.method == "tools/call" else None
        user = user_in(scope)
        offered = quick.match(message.params or {}, user, modern=False) if quick is not None else None
        begun = self.sessions.find(session, scope) if offered is not None else None
        if not (quick and offered and begun) or headers_of(scope) is None or not self._flights.has_room(session):
            return Rest(scope, send)
        key = session, coerce_request_id(message.id)
        reply = Reply(receive, send, self.moments, session=session)
        call = _Call(quick, offered, message, begun, user)
        self._running[key] = message.id, reply
        try:
            with begun.busy(), self._flights.one(session):
                said = await reply.of(call.made(self._shape))
        finally:
            del self._running[key]
        return None if said else Rest({**scope, _HANDED: call}, reply.more)

    def cancel(self, given: Any, session: str, scope: Scope) -> None:
        """End a call of a session, as its client wants."""
        asked = as_request_id(given)
        found = self._running.get((session, coerce_request_id(asked))) if asked is not None else None
        if found is not None and self.sessions.find(session, scope) is not None:
            id, reply = found
            reply.end(failed(id, ErrorData(code=REQUEST_CANCELLED, message="Request cancelled")))

    def part(self, session: str) -> None:
        """End every call of a session: it ends."""
        self._server.news.end_session(session)
        for id, reply in [running for (each, _), running in self._running.items() if each == session]:
            reply.end(failed(id, PARTED)._replace(status=500))

    def leave(self) -> None:
        """End every call: the server ends."""
        for id, reply in list(self._running.values()):
            reply.end(failed(id, ENDED)._replace(status=200))
        for reply, id in list(self._apart.items()):
            reply.end(failed(id, ENDED))

    async def meet(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """A middleware of the library's server: a call that was made has its question put in a request of its own."""
        scope = getattr(ctx.request, "scope", None) or {}
        call: _Call | None = scope.get(_HANDED) if ctx.method == "tools/call" else None
        if call is None or call.outcome is None:
            return await self.sessions(ctx, call_next)
        return await call.quick.ask_in_request(ctx, call.outcome, call.offered, call.message.params or {})


class _Call:
    """A call in a session."""

    def __init__(
        self, quick: DirectCalls, offered: Offered, message: JSONRPCRequest, begun: Begun, user: str | None
    ) -> None:
        self.quick, self.offered, self.message = quick, offered, message
        self._begun, self._user = begun, user
        self.outcome: Outcome | None = None
        """Where it waits for somebody."""

    async def made(self, shape: Shape) -> Said | None:
        """What there is to say; None if somebody has to be asked first."""
        id, version = self.message.id, self._begun.connection.protocol_version
        try:
            outcome = await self.quick.call(self.offered, self.message.params or {}, self._user)
            if isinstance(outcome, Pending):
                self.outcome = outcome
                return None
            return shape.older_result(id, self.quick.result(outcome, self.offered, version))
        except Exception as error:  # noqa: BLE001 - as above
            return shape.error(id, error)._replace(status=200)
