"""Service: the one host of an engine, asked with a client that can reach nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlencode

from surehand.core.errors import DefinitionError, NotStarted, RateLimited, ToolError, Unavailable
from surehand.http.client import Client
from surehand.http.response import Response
from surehand.http.target import Target, target_of

Asked: TypeAlias = Mapping[str, str | int | None]
"""The parameters of a query; those that are None are left out."""

TIMEOUT = 30.0
MAX_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Key:
    """A key that is given, or read from the environment when it is needed; it is never shown."""

    variable: str
    given: str | None = field(default=None, repr=False)

    def read(self) -> str:
        """The key itself."""
        if not (key := self.given or os.environ.get(self.variable)):
            raise NotStarted(f"The search has no key. Its developer gives one, or sets {self.variable}.")
        return key


@dataclass(frozen=True, slots=True)
class Service:
    """How an engine is reached; no redirect is followed, since a key goes along."""

    name: str
    endpoint: str
    allow_private: bool = False
    """Whether the endpoint may be on a private address; this opens nothing else."""

    def __post_init__(self) -> None:
        self._target()

    def _target(self) -> Target:
        try:
            return target_of(self.endpoint)
        except ToolError as error:
            fix = "give a whole URL, as in https://search.example.com/search."
            raise DefinitionError(f"The endpoint of {self.name} cannot be used: {error}", fix=fix) from None

    def _client(self) -> Client:
        target = self._target()
        return Client(
            allow_private=[target.host] if self.allow_private else False,
            allow_hosts=[target.host],
            ports=[target.port],
            max_redirects=0,
            max_bytes=MAX_BYTES,
            timeout=TIMEOUT,
        )

    async def ask(
        self,
        query: Asked | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Response:
        """Ask the service; a POST where there is a body."""
        given = urlencode({name: value for name, value in (query or {}).items() if value is not None})
        joint = "&" if "?" in self.endpoint else "?"
        url = f"{self.endpoint}{joint}{given}" if given else self.endpoint
        async with self._client() as client:
            response = await client.request("GET" if body is None else "POST", url, headers=headers, body=body)
        if not response.ok:
            raise self._refusal(response)
        return response

    async def ask_json(
        self,
        query: Asked | None = None,
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
        response = await self.ask(query, headers=given, body=raw)
        try:
            found = json.loads(response.body)
        except (ValueError, RecursionError) as error:
            raise self._strange() from error
        if not isinstance(found, dict):
            raise self._strange()
        return found

    def _strange(self) -> ToolError:
        return ToolError(f"{self.name} answered with something that is no search result.")

    def _refusal(self, response: Response) -> ToolError:
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
