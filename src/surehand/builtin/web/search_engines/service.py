"""Service: the one host of an engine, asked with a client that can reach nothing else."""

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
"""The parameters of a query; those that are None are left out."""

REQUEST_TIMEOUT_SECONDS = 30.0
MAX_RESPONSE_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key that is given, or read from the environment when it is needed; it is never shown."""

    variable: str
    value: str | None = field(default=None, repr=False)

    def read(self) -> str:
        """The key itself."""
        if not (key := self.value or os.environ.get(self.variable)):
            raise NotStarted(f"The search has no key. Its developer gives one, or sets {self.variable}.")
        return key


@dataclass(frozen=True, slots=True)
class SearchService:
    """How an engine is reached; no redirect is followed, since a key goes along."""

    name: str
    endpoint: str
    allow_private: bool = False
    """Whether the endpoint may be on a private address; this opens nothing else."""

    def __post_init__(self) -> None:
        self._parse_endpoint()

    def _parse_endpoint(self) -> HttpTarget:
        try:
            return parse_target(self.endpoint)
        except ToolError as error:
            fix = "give a whole URL, as in https://search.example.com/search."
            raise DefinitionError(f"The endpoint of {self.name} cannot be used: {error}", fix=fix) from None

    def _build_client(self) -> HttpClient:
        target = self._parse_endpoint()
        return HttpClient(
            allow_private=[target.host] if self.allow_private else False,
            allow_hosts=[target.host],
            ports=[target.port],
            max_redirects=0,
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
        """Ask the service; a POST where there is a body."""
        given = urlencode({name: value for name, value in (parameters or {}).items() if value is not None})
        joint = "&" if "?" in self.endpoint else "?"
        url = f"{self.endpoint}{joint}{given}" if given else self.endpoint
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
        """The same for a service that speaks JSON."""
        given = {"Accept": "application/json", **(headers or {})}
        raw = None
        if body is not None:
            given["Content-Type"] = "application/json"
            raw = json.dumps(body).encode()
        response = await self.request(parameters, headers=given, body=raw)
        try:
            found = json.loads(response.body)
        except (ValueError, RecursionError) as error:
            raise self._unexpected_response_error() from error
        if not isinstance(found, dict):
            raise self._unexpected_response_error()
        return found

    def _unexpected_response_error(self) -> ToolError:
        return ToolError(f"{self.name} answered with something that is no search result.")

    def _status_error(self, response: HttpResponse) -> ToolError:
        """By the status alone: what else it says could hold the key."""
        status, wait = response.status, response.header("retry-after")
        if status in (401, 403):
            return ToolError(f"{self.name} refused the request ({status}): its developer should look at the key.")
        if status in (429, 432, 433):
            seconds = float(wait) if wait.isascii() and wait.isdigit() and len(wait) < 7 else None
            return RateLimited(f"{self.name} has had too many searches. Try again later.", retry_after=seconds)
        if status >= 500:
            return Unavailable(f"{self.name} cannot answer now ({status}). Try again later.")
        return ToolError(f"{self.name} answered with status {status}.")
