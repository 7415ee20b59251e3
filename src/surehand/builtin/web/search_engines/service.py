"""The HTTP service of a search engine, called by a client that can reach only its host, and its API key."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlencode

from surehand.core.errors import DefinitionError, NotStarted, RateLimited, ToolError, Unavailable
from surehand.http.client import HttpClient
from surehand.http.response import HttpResponse
from surehand.http.target import HttpTarget, parse_target

QueryParameters: TypeAlias = Mapping[str, str | int | None]
"""Parameters of a request by name; None leaves a parameter out."""

REQUEST_TIMEOUT_SECONDS = 30.0
MAX_RESPONSE_BYTES = 2 * 1024 * 1024


def require_endpoint(engine: str, endpoint: str | None, example: str) -> str:
    """The endpoint of an engine that has none of its own."""
    if not endpoint:
        raise DefinitionError(f"{engine} needs the URL of the server that it searches with.", fix=f"write {example}.")
    return endpoint


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key, given or read from an environment variable when it is needed. Its `repr` hides the value."""

    variable: str
    value: str | None = field(default=None, repr=False)

    def read(self) -> str:
        """The value of the key."""
        key = self.value or os.environ.get(self.variable)
        if not key:
            raise NotStarted(f"The search has no key. Its developer gives one, or sets {self.variable}.")
        return key


@dataclass(frozen=True, slots=True)
class SearchService:
    """The endpoint of an engine. Redirects are not followed, because requests carry the API key."""

    name: str
    endpoint: str
    allow_private: bool = False
    """Whether the endpoint may be on a private address; other private hosts stay unreachable."""

    def __post_init__(self) -> None:
        self._parse_endpoint()

    def _parse_endpoint(self) -> HttpTarget:
        try:
            return parse_target(self.endpoint)
        except ToolError as error:
            fix = "pass a full URL such as https://search.example.com/search."
            raise DefinitionError(f"The endpoint of {self.name} is not a usable URL: {error}", fix=fix) from None

    def _build_client(self) -> HttpClient:
        target = self._parse_endpoint()
        return HttpClient(
            allow_private=[target.host] if self.allow_private else False,
            allow_hosts=[target.host],
            ports=[target.port],
            max_redirects=0,  # a redirect would carry the API key to another host
            max_bytes=MAX_RESPONSE_BYTES,
            timeout=REQUEST_TIMEOUT_SECONDS,
        )

    async def request(
        self,
        parameters: QueryParameters | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> HttpResponse:
        """Send a request: POST with a body, otherwise GET."""
        query = urlencode({name: value for name, value in (parameters or {}).items() if value is not None})
        separator = "&" if "?" in self.endpoint else "?"
        url = f"{self.endpoint}{separator}{query}" if query else self.endpoint
        async with self._build_client() as client:
            response = await client.request("GET" if body is None else "POST", url, headers=headers, body=body)
        if not response.ok:
            raise self._status_error(response)
        return response

    async def request_json(
        self,
        parameters: QueryParameters | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> dict[str, Any]:
        """Send a request with a JSON body, and parse the JSON object of the response."""
        request_headers = {"Accept": "application/json", **(headers or {})}
        raw_body = None
        if body is not None:
            request_headers["Content-Type"] = "application/json"
            raw_body = json.dumps(body).encode()
        response = await self.request(parameters, headers=request_headers, body=raw_body)
        try:
            data = json.loads(response.body)
        except (ValueError, RecursionError) as error:
            raise self._unexpected_response_error() from error
        if not isinstance(data, dict):
            raise self._unexpected_response_error()
        return data

    def _unexpected_response_error(self) -> ToolError:
        return ToolError(f"{self.name} answered with something that is no search result.")

    def _status_error(self, response: HttpResponse) -> ToolError:
        """The error for a status. The body is not quoted, because it could contain the API key."""
        status = response.status
        if status in (401, 403):
            return ToolError(f"{self.name} refused the request ({status}): its developer should look at the key.")
        if status in (429, 432, 433):
            value = response.header("retry-after")
            is_seconds = value.isascii() and value.isdigit() and len(value) < 7
            return RateLimited(
                f"{self.name} has had too many searches. Try again later.",
                retry_after=float(value) if is_seconds else None,
            )
        if status >= 500:
            return Unavailable(f"{self.name} cannot answer now ({status}). Try again later.")
        return ToolError(f"{self.name} answered with status {status}.")
