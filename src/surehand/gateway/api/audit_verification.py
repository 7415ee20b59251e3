"""The route that verifies the audit: whether its rows are as they were sealed."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from surehand.gateway.api.requests import Caller, json_response
from surehand.gateway.api.strict_route import StrictRoute
from surehand.gateway.gateway import Gateway


class AuditVerificationInfo(BaseModel):
    """Whether the audit is unchanged, as far as its seals tell."""

    rows: int
    seals: int
    unsealed: int = Field(description="Rows after the last seal.")
    head: str = Field(description="The hash of the last seal: keep a copy of it elsewhere.")
    problem: str | None = Field(None, description="The first difference between the rows and their seals.")


def audit_verification_routes(gateway: Gateway) -> APIRouter:
    """The route `/api/audit/verify`."""
    router = APIRouter(tags=["audit"], route_class=StrictRoute)

    @router.post("/api/audit/verify", responses={200: {"model": AuditVerificationInfo}})
    async def verify_audit(identity: Caller) -> Response:
        """Compare all audit rows with their seals, for those who may see all calls."""
        await gateway.require_all_calls(identity, "verify the audit")
        store = await gateway.require_store()
        return json_response(asdict(await store.audit.verify()))

    return router
