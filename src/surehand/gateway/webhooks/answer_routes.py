"""The route of answers that other programs send as signed messages: `/api/webhooks/{webhook}/answers`.

The signature takes the place of a token. It is verified on the raw body, before the body is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from hashlib import sha256
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Header, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import Field, model_validator
from starlette.responses import Response

from surehand.gateway.access.identity import MAX_USER_NAME_LENGTH, Identity
from surehand.gateway.api.models import CALL_RESPONSES, MAX_ID_LENGTH, Body
from surehand.gateway.api.pending import answered_call_response, require_may_answer
from surehand.gateway.api.strict_route import StrictRequest
from surehand.gateway.gateway import Gateway
from surehand.gateway.mcp.log_throttle import LogThrottle
from surehand.gateway.problems import Problem
from surehand.gateway.webhooks.signatures import MAX_MESSAGE_ID_LENGTH, InvalidSignature, verify_webhook
from surehand.gateway.webhooks.webhook import Webhook

MAX_AUDITED_PER_MINUTE = 60
"""Messages with a wrong signature that the audit has a row of: anybody can send them, as often as they like."""
UNKNOWN_WEBHOOK = "?"
"""Stands in the log and the audit for a name that no webhook has: it is a text of whoever sent the message."""
_AUDITED_CODES = ("denied", "not_found")
"""What the judgement of an answer has audited itself, with the name of the person."""
WebhookName = Annotated[str, Path(min_length=1, max_length=64, description="The name of the webhook.")]
MessageId = Annotated[str, Header(max_length=MAX_MESSAGE_ID_LENGTH, description="The same for every attempt.")]
Timestamp = Annotated[str, Header(description="When it was sent, in seconds since the epoch.")]
Signature = Annotated[str, Header(description="`v1,` and the HMAC-SHA256 of id, timestamp and body, in Base64.")]


class WebhookAnswer(Body):
    """An answer to a call that waits, in the name of a person."""

    call_id: str = Field(min_length=1, max_length=MAX_ID_LENGTH)
    round: int = Field(ge=1, description="The question that this answers, as the announcement names it.")
    action: Literal["approve", "reject", "settle"]
    by: str = Field(min_length=1, max_length=MAX_USER_NAME_LENGTH, description="The user who answers.")
    arguments: dict[str, Any] | None = Field(None, description="Of `approve`: edited arguments.")
    always: bool = Field(False, description="Of `approve`: do not ask the requester about this tool again.")
    reason: str = Field("", max_length=10_000, description="Of `reject`.")
    result: Any = Field(None, description="Of `settle`, which needs it; it may be null.")

    @model_validator(mode="after")
    def _require_result(self) -> Self:
        if self.action == "settle" and "result" not in self.model_fields_set:
            raise ValueError("give `result`, which may be null")
        return self


def webhook_routes(gateway: Gateway, webhooks: Iterable[Webhook]) -> APIRouter:
    """The route that answers of webhooks are sent to."""
    by_name = {each.name: each for each in webhooks}
    receiver = _Receiver(gateway, by_name)
    router = APIRouter(tags=["pending"], route_class=_signed_route(receiver))

    @router.post("/api/webhooks/{webhook}/answers", responses=CALL_RESPONSES)
    async def answer_by_webhook(
        webhook: WebhookName,
        webhook_id: MessageId,
        webhook_timestamp: Timestamp,
        webhook_signature: Signature,
        body: WebhookAnswer,
    ) -> Response:
        """Answer a call in the name of a person, by a message that is signed with the secret of a webhook."""
        return await receiver.answer(by_name[webhook], body)

    return router


class _Receiver:
    """Verifies messages, and gives their answers."""

    def __init__(self, gateway: Gateway, webhooks: dict[str, Webhook]) -> None:
        self._gateway = gateway
        self._webhooks = webhooks
        self._log_throttle = LogThrottle()
        self._audited_minute = 0
        self._audited_count = 0

    async def verify(self, request: Request) -> tuple[Webhook, str]:
        """The webhook that has signed a message, and the id of the message; raises `Problem`."""
        name = request.path_params["webhook"]
        webhook = self._webhooks.get(name)
        body = await request.body()
        now = self._gateway.runtime.clock.time()
        try:
            if webhook is None:
                name = UNKNOWN_WEBHOOK
                raise InvalidSignature("There is no such webhook.")
            message_id = verify_webhook(body, request.headers, webhook.secrets, now=now)
        except InvalidSignature as error:
            self._log_throttle.warn("401", "A message to webhook %s was refused: %s", name, error)
            await self._audit_unsigned(name, now)
            raise _NotSigned from None
        return webhook, message_id

    async def _audit_unsigned(self, name: str, now: float) -> None:
        minute = int(now // 60)
        if minute != self._audited_minute:
            self._audited_minute = minute
            self._audited_count = 0
        self._audited_count += 1
        if self._audited_count <= MAX_AUDITED_PER_MINUTE:
            await self.audit(name, "unauthorized")

    async def refuse_replay(self, webhook: Webhook, message_id: str, body: bytes) -> None:
        """Remember a message. The same one again goes on: it answers the same question in the same way."""
        store = self._gateway.runtime.store
        if store is None:  # nothing has waited yet
            return
        digest = sha256(body).hexdigest()
        known = await store.webhooks.remember_message(webhook.name, message_id, digest)
        if known is not None and known != digest:
            raise Problem("conflict", f"Another message was sent as {message_id[:80]} before.")

    async def answer(self, webhook: Webhook, body: WebhookAnswer) -> Response:
        """Give an answer in the name of a person, if the webhook and the person may."""
        gateway = self._gateway
        if not webhook.may_answer_for(body.by):
            await self.audit(webhook.name, "denied", body.call_id)
            raise Problem("denied", f"Webhook {webhook.name} may not answer in the name of {body.by[:80]}.")
        try:
            person = webhook.identity_of(body.by)
        except ValueError as error:
            raise Problem("invalid_arguments", str(error)) from None
        scope, round = await require_may_answer(gateway, person, body.call_id, body.action, body.round)
        match body.action:
            case "approve":
                outcome = await scope.approve(
                    body.call_id, always=body.always, arguments=body.arguments, by=body.by, round=round
                )
            case "reject":
                outcome = await scope.reject(body.call_id, body.reason, by=body.by, round=round)
            case "settle":
                outcome = await scope.settle(body.call_id, body.result, by=body.by, round=round)
        return answered_call_response(outcome, body.call_id)

    async def audit(self, name: str, code: str, call_id: str = "") -> None:
        """Write a refused message to the audit."""
        sender = Identity(f"webhook:{name}", frozenset())
        await self._gateway.audit_refusal(sender, "answer by webhook", call_id=call_id, code=code)


class _NotSigned(Problem):
    def __init__(self) -> None:
        super().__init__("unauthorized", "The message is not signed with a secret of this webhook, or is too old.")
        self.headers = {"WWW-Authenticate": "Webhook-Signature"}


def _signed_route(receiver: _Receiver) -> type[APIRoute]:
    """A route that verifies a message before it reads the body as strict JSON, and audits every refusal."""

    class SignedRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def handle_signed(request: Request) -> Response:
                strict = StrictRequest(request.scope, request.receive)
                webhook, message_id = await receiver.verify(strict)
                try:
                    await receiver.refuse_replay(webhook, message_id, await strict.body())
                    return await handle(strict)
                except RequestValidationError:
                    await receiver.audit(webhook.name, "invalid_arguments")
                    raise
                except Problem as error:
                    if error.code not in _AUDITED_CODES:
                        await receiver.audit(webhook.name, error.code, error.extra.get("call_id", ""))
                    raise

            return handle_signed

    return SignedRoute
