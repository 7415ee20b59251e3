"""The handler of REST tools: fills the request template with a call's arguments, sends it, and reads the response."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from surehand.core.context import CURRENT_CALL, Context, RunningCall
from surehand.core.handler import StartHandler
from surehand.core.outcome import Done
from surehand.core.redaction import Redactor
from surehand.core.sanitize import escape_line
from surehand.core.strict_json import validate_json_value
from surehand.http.headers import has_header
from surehand.http.request import HttpRequest, idempotency_key_header
from surehand.providers.rest.auth import Auth, apply_auth, auth_variables
from surehand.providers.rest.pagination import Pagination, send_pages
from surehand.providers.rest.preview import render_request, render_url
from surehand.providers.rest.request_template import RequestTemplate
from surehand.providers.rest.response_reader import ResponseReader
from surehand.providers.rest.secrets import MaskedSecrets, SecretSource
from surehand.providers.rest.sender import RestSender

STANDALONE_TIMEOUT_SECONDS = 30.0
"""Time limit of a request where no runtime sets one."""
_MAX_URL_CHARS_IN_QUESTION = 1000


@dataclass(frozen=True, slots=True)
class RestHandler:
    """Sends the request of a REST tool."""

    can_suspend: ClassVar[bool] = True
    may_read_current_call: ClassVar[bool] = False

    template: RequestTemplate = field(repr=False)  # a developer may have written a secret into it
    reader: ResponseReader
    open_sender: Callable[[], AbstractAsyncContextManager[RestSender]] = field(repr=False)
    """Opens a sender for a call without a runtime; in a runtime it is the lifespan of the tool."""
    auth: Auth | None = None
    pagination: Pagination | None = None
    sends_idempotency_key: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values of arguments that the schema of the parameters gives."""
    has_typed_parameters: bool = False
    """Whether arguments may be Python objects instead of plain JSON."""
    timeout: float = STANDALONE_TIMEOUT_SECONDS
    environment: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def variables(self) -> frozenset[str]:
        """The environment variables that a request needs."""
        return self.template.variables | auth_variables(self.auth)

    def compile(self) -> StartHandler:
        return self._start

    def _start(self, call: RunningCall) -> Awaitable[Any]:
        return self._run(call)

    async def _run(self, call: RunningCall) -> Done:
        sender = call.find_value(RestSender)
        if sender is not None:
            return await self._send(sender, call, timeout=None)
        async with self.open_sender() as own_sender:
            return await self._send(own_sender, call, timeout=self.timeout)

    async def _send(self, sender: RestSender, call: RunningCall, *, timeout: float | None) -> Done:
        with sender.redacted_errors():
            request = self._prepare(call.arguments, sender.secrets, call.id if self.sends_idempotency_key else None)
        if self.pagination is not None:
            return await send_pages(sender, request, self.reader, self.pagination, auth=self.auth, timeout=timeout)
        return await sender.send(request, self.reader, call.report, auth=self.auth, timeout=timeout)

    def _prepare(self, arguments: Mapping[str, Any], secrets: SecretSource, idempotency_key: str | None) -> HttpRequest:
        if self.has_typed_parameters:
            arguments = _plain_json(arguments)
        request = self.template.prepare(arguments, self.defaults, secrets)
        if idempotency_key is None or has_header(request.headers, "idempotency-key"):
            return request
        key = ("Idempotency-Key", idempotency_key_header(idempotency_key))
        return replace(request, headers=(*request.headers, key))

    def _masked_request(self, arguments: Mapping[str, Any], ctx: Context) -> HttpRequest:
        # These are the arguments with the defaults of the schema, which are not sent unless a template names them.
        call = CURRENT_CALL.get(None)
        if call is not None:
            arguments = call.arguments
        secrets = MaskedSecrets(self.environment)
        key = ctx.idempotency_key if self.sends_idempotency_key else None
        return apply_auth(self._prepare(arguments, secrets, key), self.auth, secrets, {})

    def preview(self, arguments: dict[str, Any], ctx: Context) -> str:
        """The request as it will be sent, with secrets masked; raises `ToolError` if it cannot be sent."""
        return self._mask_constants(render_request(self._masked_request(arguments, ctx)))

    def confirm_message(self, arguments: dict[str, Any], ctx: Context) -> str:
        """The question for an approval."""
        request = self._masked_request(arguments, ctx)
        url = self._mask_constants(render_url(request))
        return f"Send {request.method} {escape_line(url, _MAX_URL_CHARS_IN_QUESTION)}?"

    def _mask_constants(self, text: str) -> str:
        """Mask the secrets that the developer wrote into the template itself."""
        return Redactor(self.template.constant_secrets)(text)


def _plain_json(arguments: Mapping[str, Any]) -> dict[str, Any]:
    from pydantic_core import to_jsonable_python  # typed parameters have loaded it

    plain: dict[str, Any] = to_jsonable_python(dict(arguments), by_alias=True)
    validate_json_value(plain)
    return plain


def sender_lifespan(
    build_sender: Callable[[], RestSender],
) -> Callable[[], AbstractAsyncContextManager[RestSender]]:
    """A lifespan that opens one sender; tools that share the lifespan share connections and access tokens."""

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[RestSender]:
        async with build_sender() as sender:
            yield sender

    return lifespan
