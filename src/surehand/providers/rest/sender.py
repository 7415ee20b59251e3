"""`RestSender` sends prepared requests of REST and OpenAPI tools through the HTTP client, and reads the responses.

It reaches the hosts that a developer wrote down, adds authentication when a request is sent, masks secrets in all that
comes back, and retries nothing: the pipeline does that, by the failure code and `retry_after` of the `ToolError`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from math import inf
from typing import Self

from surehand.core.errors import ToolError
from surehand.core.outcome import Done
from surehand.core.redaction import Redactor
from surehand.http.client import HttpClient
from surehand.http.connector import connect_with_keepalive
from surehand.http.request import HttpRequest
from surehand.http.response import IncomingResponse
from surehand.http.settings import HttpLimits, HttpOptions, HttpSettings
from surehand.http.target import HttpTarget
from surehand.providers.rest.auth import Auth, ClientCredentialsAuth, apply_auth, single_auths
from surehand.providers.rest.oauth2 import AccessTokens
from surehand.providers.rest.preview import render_request
from surehand.providers.rest.response_reader import ReportProgress, ResponseReader
from surehand.providers.rest.secrets import MaskedSecrets, SentSecrets

STALL_TIMEOUT_SECONDS = 600.0
"""Longest time between two pieces of a response. The time limit of a call is the pipeline's, and usually ends first."""
MAX_RESPONSE_BYTES = 10 * 1024 * 1024


class RestSender:
    """Keeps connections, access tokens and the secrets that were sent, for the tools of one runtime.

    Args:
        targets: URLs of the hosts that may be reached, also on private addresses: of the tools and token endpoints.
        http: settings of the HTTP client.
        environment: the environment variables; those of the process if left out.
        known_secrets: further texts to mask in what comes back.
    """

    def __init__(
        self,
        targets: Iterable[HttpTarget],
        *,
        http: HttpOptions | None = None,
        environment: Mapping[str, str] | None = None,
        known_secrets: Iterable[str] = (),
    ) -> None:
        settings = HttpSettings(
            endpoints=frozenset((target.host, target.port) for target in targets),
            timeout=None,
            read_timeout=STALL_TIMEOUT_SECONDS,
            max_bytes=MAX_RESPONSE_BYTES,
            dialer=connect_with_keepalive,
        )
        self._client = HttpClient(settings, **(http or {}))
        self._environment = environment
        self.secrets = SentSecrets(environment, known_secrets)
        """Gives the values of secrets and environment variables for a request."""
        self._tokens = AccessTokens(self._client, self.secrets)

    @property
    def redactor(self) -> Redactor:
        """Masks the secrets that have been sent."""
        return self.secrets.redactor

    @property
    def max_response_bytes(self) -> float:
        """Bytes of one response, or of all pages of a list, that are read."""
        limit = self._client.settings.max_bytes
        return inf if limit is None else limit

    @property
    def masked_secrets(self) -> MaskedSecrets:
        """Stands in for `secrets` in a preview."""
        return MaskedSecrets(self._environment)

    async def send(
        self,
        request: HttpRequest,
        reader: ResponseReader,
        report: ReportProgress,
        *,
        auth: Auth | None = None,
        timeout: float | None = None,
    ) -> Done:
        """Send a request and read the response; raises `ToolError`, without secrets.

        Args:
            timeout: seconds for all of it, for a call that has no time limit of the pipeline.
        """
        with self.redacted_errors():
            async with self.open(request, auth=auth, timeout=timeout) as incoming:
                return await reader.read(incoming, self.redactor, report)

    @asynccontextmanager
    async def open(
        self, request: HttpRequest, *, auth: Auth | None = None, timeout: float | None = None
    ) -> AsyncIterator[IncomingResponse]:
        """Send a request with its authentication, and give the response, whatever its status is.

        A request whose access token the service refuses is sent once more with a new one: it has had no effect.
        """
        limits: HttpLimits = {} if timeout is None else {"timeout": timeout}
        tokens = await self._fetch_tokens(auth)
        async with self._client.open(apply_auth(request, auth, self.secrets, tokens), **limits) as incoming:
            if incoming.head.status != 401 or not tokens:
                yield incoming
                return
        for client_credentials, token in tokens.items():
            self._tokens.discard(client_credentials, token)
        tokens = await self._fetch_tokens(auth)
        async with self._client.open(apply_auth(request, auth, self.secrets, tokens), **limits) as incoming:
            yield incoming

    async def _fetch_tokens(self, auth: Auth | None) -> dict[ClientCredentialsAuth, str]:
        return {
            each: await self._tokens.get(each) for each in single_auths(auth) if isinstance(each, ClientCredentialsAuth)
        }

    def preview(self, request: HttpRequest, *, auth: Auth | None = None) -> str:
        """The request as it will be sent, with secrets masked."""
        return render_request(apply_auth(request, auth, self.masked_secrets, {}))

    @contextmanager
    def redacted_errors(self) -> Iterator[None]:
        """Mask secrets in the `ToolError`s of the block."""
        try:
            yield
        except ToolError as error:
            message = str(error)
            redacted = self.redactor(message)
            if redacted != message:
                error.args = (redacted,)
            error.data = self.redactor.redact_json(error.data)
            raise

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
