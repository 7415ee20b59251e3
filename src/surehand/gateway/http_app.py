"""`gateway.app`: the HTTP API of a runtime, as an application to serve or to mount in another one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from surehand.core.errors import DefinitionError
from surehand.gateway.access.access_control import AccessControl, SecurityHeaders, refuse_host
from surehand.gateway.access.answers import AnswerPolicy, AnswerRule
from surehand.gateway.access.overload import counts_as_request, early_refusal, refuse_overload
from surehand.gateway.access.refusal_audit import RefusalAudit
from surehand.gateway.access.request_limits import GatewayLimits, RequestLimiter
from surehand.gateway.access.tokens import Authenticate
from surehand.gateway.agent_runs import ServedAgent
from surehand.gateway.agui.routes import agui_routes
from surehand.gateway.api.agent_inbox import agent_inbox_routes
from surehand.gateway.api.agents import agent_routes
from surehand.gateway.api.audit import audit_routes
from surehand.gateway.api.audit_verification import audit_verification_routes
from surehand.gateway.api.call_tree import call_tree_routes
from surehand.gateway.api.calls import call_routes
from surehand.gateway.api.descriptions import description_routes
from surehand.gateway.api.documentation import add_documentation
from surehand.gateway.api.events import event_routes
from surehand.gateway.api.grants import grant_routes
from surehand.gateway.api.health import health_routes
from surehand.gateway.api.models import PROBLEM_RESPONSES, ProblemDetails
from surehand.gateway.api.openapi_document import DESCRIPTION, complete_document
from surehand.gateway.api.pending import pending_routes
from surehand.gateway.api.runs import run_routes
from surehand.gateway.api.servers import server_routes
from surehand.gateway.api.sessions import session_routes
from surehand.gateway.api.spaces import space_routes
from surehand.gateway.api.statistics import statistics_routes
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.api.tool_results import tool_result_routes
from surehand.gateway.api.tools import add_call_route, tool_routes
from surehand.gateway.console.static_files import ConsoleFiles
from surehand.gateway.gateway import Gateway
from surehand.gateway.mcp.http.app import app as mcp_app
from surehand.gateway.mcp.http.early_refusal import EarlyRefusal
from surehand.gateway.mcp.http.host_check import LOOPBACK_HOSTS, HostCheck
from surehand.gateway.mcp.http.request_monitor import FramingCheck
from surehand.gateway.problems import respond_with_problems
from surehand.gateway.webhooks.answer_routes import webhook_routes
from surehand.gateway.webhooks.sender import WebhookSender
from surehand.gateway.webhooks.webhook import Webhook
from surehand.version import __version__

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from starlette.types import ASGIApp, Receive, Scope, Send

    from surehand.runtime.runtime import Runtime

HTTP_METHODS = ("GET", "POST", "DELETE")


def app(
    runtime: Runtime,
    *,
    agents: Iterable[ServedAgent] = (),
    auth: Authenticate | None = None,
    answers: Iterable[AnswerRule] = (),
    webhooks: Iterable[Webhook] = (),
    public_url: str | None = None,
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    port: int | None = None,
    limits: GatewayLimits | None = None,
    registry: CollectorRegistry | None = None,
    console: bool = True,
) -> GatewayApp:
    """The HTTP API of a runtime. The app starts the runtime, unless it is running, and keeps the runtime's policy.

    Args:
        agents: agents that clients may run. With a store, the app runs a `Worker` for them: it runs them on what
            is put into their inboxes, and their runs go on by themselves.
        auth: an async function from a request to an `Identity`, or None for one that has none, which is answered with
            401. Without it, whoever can reach the gateway may do everything.
        answers: who may answer calls that wait; the first rule that applies decides.
        webhooks: programs that calls that wait are announced to, and that may answer them.
        public_url: the address of this gateway for people, which announcements link to: `"https://tools.example"`.
        hosts: host names of this server, besides those of the loopback interface; `"*"` for any.
        origins: sites whose pages may send requests, as `"https://example.org"`, besides pages of this server.
        port: with it, the loopback names count only with this port.
        registry: the metrics that `/metrics` shows, by default the global registry of prometheus-client.
        console: whether the console is served at `/`. Its files are public; what it shows needs the token.
    """
    limiter = RequestLimiter(limits or GatewayLimits())
    gateway = Gateway(runtime, answers=AnswerPolicy(answers), limiter=limiter, agents=agents)
    mcp = mcp_app(runtime, hosts=["*"])  # hosts are checked outside
    webhooks = _with_unique_names(webhooks)
    sender = WebhookSender(runtime, webhooks, public_url)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with gateway.run(), sender.run(), mcp.router.lifespan_context(mcp):
            yield

    api = GatewayApp(
        title="surehand gateway",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        responses={**PROBLEM_RESPONSES, 400: {**PROBLEM_RESPONSES[400], "model": ProblemDetails}},
        telemetry={"tracing": False},
    )
    api.gateway = gateway
    respond_with_problems(api)
    api.router.route_class = StrictRoute
    add_call_route(api.router, gateway)
    for router in (
        tool_routes(gateway),
        call_routes(gateway),
        call_tree_routes(gateway),
        description_routes(gateway),
        grant_routes(gateway),
        pending_routes(gateway),
        tool_result_routes(gateway),
        webhook_routes(gateway, webhooks),
        session_routes(gateway),
        agent_routes(gateway),
        agent_inbox_routes(gateway),
        agui_routes(gateway),
        run_routes(gateway),
        space_routes(gateway),
        audit_routes(gateway),
        audit_verification_routes(gateway),
        statistics_routes(gateway),
        server_routes(gateway),
        event_routes(gateway),
        health_routes(gateway, registry),
    ):
        api.include_router(router)
    add_documentation(api)
    api.add_middleware(
        _RequestChecks,
        hosts=[*hosts],
        origins=[*origins],
        port=port,
        console=console,
        access={
            "authenticate": auth,
            "limiter": limiter,
            "mcp_app": mcp,
            "answers": gateway.answers,
            "is_started": lambda: gateway.is_started,
            "refusals": RefusalAudit(gateway.audit_refused_request),
        },
    )
    return api


def _with_unique_names(webhooks: Iterable[Webhook]) -> list[Webhook]:
    """The webhooks; raises `DefinitionError` if two have one name, under which deliveries are remembered."""
    found = [*webhooks]
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            raise DefinitionError(f"Two webhooks are called {name}.", fix="give each a name of its own.")
    return found


class GatewayApp(FastAPI):
    """The application that `app` returns."""

    gateway: Gateway

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document; it is made once."""
        if self.openapi_schema is None:
            complete_document(super().openapi())
        assert self.openapi_schema is not None
        return self.openapi_schema

    @property
    def is_full(self) -> bool:
        """Whether as many requests are in flight as may be."""
        return self.gateway.limiter.is_full

    @property
    def early_refusal(self) -> EarlyRefusal:
        """For `listen`: the refusal of requests before they reach the app."""
        return early_refusal(lambda: self.is_full)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; one too many is refused before anything is done for it."""
        if scope["type"] == "http" and self.is_full:
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            if counts_as_request(scope["method"], path):
                await refuse_overload(send)
                return
        await super().__call__(scope, receive, send)

    def begin_shutdown(self) -> None:
        """End the streams that follow events, and answer `/readyz` with 503; requests that run go on."""
        self.gateway.begin_shutdown()


class _RequestChecks:
    """The checks around all routes, from the outside: headers, framing, host and origin, then the access control."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: list[str],
        origins: list[str],
        port: int | None,
        console: bool,
        access: dict[str, Any],
    ) -> None:
        loopback = LOOPBACK_HOSTS if port is None else frozenset(f"{name}:{port}" for name in LOOPBACK_HOSTS)
        access_control: ASGIApp = AccessControl(app, **access)
        host_check = HostCheck(
            ConsoleFiles(access_control) if console else access_control,
            hosts,
            origins,
            HTTP_METHODS,
            default_hosts=loopback,
            allow_loopback_origins=False,
            refuse=partial(refuse_host, access["refusals"]),
        )
        self._app = app
        self._checked_app = SecurityHeaders(FramingCheck(host_check))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._checked_app(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})
