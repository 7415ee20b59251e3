"""Routes for the programs that operate the gateway: health and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.responses import Response

from surehand.core.extras import install_command
from surehand.gateway.api.requests import Caller, json_response
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.gateway import Gateway
from surehand.gateway.problems import Problem

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_TEXT = {"text/plain": {"schema": {"type": "string"}}}


def health_routes(gateway: Gateway, registry: CollectorRegistry | None) -> APIRouter:
    """The routes `/healthz`, `/readyz` and `/metrics`, which shows the metrics of a registry."""
    router = APIRouter(tags=["operation"], route_class=StrictRoute)

    @router.get("/healthz", responses={200: {"description": "The process answers."}})
    async def healthz() -> Response:
        """Answer while the process runs."""
        return json_response({"status": "ok"})

    @router.get("/readyz", responses={200: {"description": "Calls can be made."}})
    async def readyz() -> Response:
        """Answer 200 while calls can be made, 503 before the start, during the shutdown and without the store."""
        if not gateway.is_started or gateway.is_stopping:
            raise Problem("unavailable", "The gateway is starting or shutting down.", retry_after=1)
        store = gateway.runtime.store
        if store is not None and gateway.runtime.is_durable:
            await store.ping()
        return json_response({"status": "ready"})

    @router.get("/metrics", responses={200: {"description": "Prometheus metrics", "content": _TEXT}})
    async def metrics(identity: Caller) -> Response:
        """Show the metrics of the process in the format of Prometheus, to those who may see all calls."""
        await gateway.require_all_calls(identity, "read metrics")
        try:
            import prometheus_client  # an extra, which only this route needs
        except ImportError:
            raise Problem("unavailable", f"Metrics need prometheus-client: {install_command('metrics')}.") from None
        text = prometheus_client.generate_latest(prometheus_client.REGISTRY if registry is None else registry)
        return Response(text, media_type=prometheus_client.CONTENT_TYPE_LATEST)

    return router
